"""The providers of models that the worker's settings name, and the activity that calls them."""

from datetime import timedelta
from functools import partial

from activities.delta_streams import WorkflowDeltas
from activities.model_calls import ModelActivities
from activities.providers.provider import Provider
from worker.settings import WorkerSettings


def model_activities(settings: WorkerSettings) -> ModelActivities:
    """The activity, with the providers that are configured."""
    return ModelActivities(
        configured_providers(settings),
        prices=settings.model_prices,
        open_sink=partial(WorkflowDeltas, steady=timedelta(seconds=settings.delta_seconds)),
    )


def configured_providers(settings: WorkerSettings) -> dict[str, Provider]:
    """The providers that have a key, by their ids; `generic` needs only an address."""
    keys = (settings.openai_api_key, settings.anthropic_api_key, settings.zai_api_key)
    if not any(key and key.get_secret_value() for key in keys) and not settings.generic_base_url:
        return {}
    # Their libraries cost a second and a half of every start: only for workers that call models.
    from worker.providers import providers_of  # noqa: PLC0415

    return providers_of(settings)
