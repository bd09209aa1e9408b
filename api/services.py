"""What the API process is made of: one of each, built from its settings."""

from dataclasses import dataclass

from temporalio.client import Client

from activities.platform import ApifyPlatform
from activities.secrets import SecretSealer
from api.call_builder import CallBuilder
from api.callers import CallerResolver
from api.catalogue import Catalogue
from api.handoffs import Handoffs
from api.outputs import StoredOutputs
from api.session_events import SessionEvents
from api.sessions import SessionClient
from api.settings import ApiSettings
from api.tasks import TaskClient
from worker.outputs import output_objects
from worker.sealing import sealer_from


@dataclass(frozen=True)
class Services:
    """Shared by every front door."""

    settings: ApiSettings
    tasks: TaskClient
    handoffs: Handoffs
    catalogue: Catalogue
    callers: CallerResolver
    sealer: SecretSealer
    outputs: StoredOutputs
    sessions: SessionEvents
    turns: SessionClient


def build_services(settings: ApiSettings, client: Client) -> Services:
    """Put the services together. Raises `SealError` when there is no key ring."""
    sealer = sealer_from(settings)
    platform = ApifyPlatform(
        api_base_url=settings.apify_api_base_url, operator_token=settings.apify_token, sealer=sealer
    )
    catalogue = Catalogue(platform, actors=settings.actors, selectors=settings.selectors)
    builder = CallBuilder(catalogue, sealer, settings)
    tasks = TaskClient(client, builder, fair=settings.fairness, ui_url=settings.temporal_ui_url)
    outputs = StoredOutputs(output_objects(settings))
    callers, sessions = CallerResolver(settings, platform, sealer), SessionEvents(client)
    turns = SessionClient(client, catalogue, settings)
    return Services(settings, tasks, Handoffs(tasks), catalogue, callers, sealer, outputs, sessions, turns)
