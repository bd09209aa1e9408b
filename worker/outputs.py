"""The output store of this process, from its settings."""

from activities.output_store.store import OutputObjects
from worker.settings import Settings


def output_objects(settings: Settings) -> OutputObjects:
    """Open the store. Raises what obstore raises for an address that it does not understand."""
    return OutputObjects.open(settings.store_url or str(settings.data_dir / "outputs"))
