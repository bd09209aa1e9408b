"""The interval that a restored stack has to know: in it, the system that it continues went on without it.

Runs that were started then are known to the platform and not to the restored workflows, which look for them before they
start any, see docs/decisions/0002-one-paid-run.md.
"""

from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict

from outlast.deploy.local.private_files import private_file

FILE_NAME = "restored.json"


class Restored(BaseModel):
    """Where the state of a data directory comes from."""

    model_config = ConfigDict(frozen=True)

    backed_up_at: AwareDatetime
    resumed_at: AwareDatetime | None = None
    """When the first stack was started on it; None before that."""


def write_restored(folder: Path, restored: Restored) -> None:
    """Replace the file in one step."""
    draft = folder / f"{FILE_NAME}.tmp"
    with private_file(draft, "wb") as file:
        file.write(f"{restored.model_dump_json(indent=2)}\n".encode())
    draft.replace(folder / FILE_NAME)


def resumed_interval(data_dir: Path) -> str | None:
    """`FROM/UNTIL` in ISO 8601, as `OUTLAST_RESTORED_INTERVAL` takes it; None for a directory that was not restored.

    The first call ends the interval: from then on this stack does the work.
    """
    path = data_dir / FILE_NAME
    if not path.is_file():
        return None
    restored = Restored.model_validate_json(path.read_bytes())
    if restored.resumed_at is None:
        restored = restored.model_copy(update={"resumed_at": datetime.now(UTC)})
        write_restored(data_dir, restored)
    until = restored.resumed_at or restored.backed_up_at
    return f"{restored.backed_up_at.isoformat()}/{until.isoformat()}"
