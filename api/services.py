"""What the API process is made of: one of each, built from its settings."""

from dataclasses import dataclass

from temporalio.client import Client

from outlast.activities.apify_platform import ApifyPlatform
from outlast.activities.secrets.sealer import SecretSealer
from outlast.api.access.callers import CallerResolver
from outlast.api.offer.catalogue import Catalogue
from outlast.api.outputs import StoredOutputs
from outlast.api.sessions.client import SessionClient
from outlast.api.settings import ApiSettings
from outlast.api.tasks.call_builder import CallBuilder
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.handoffs import Handoffs
from outlast.api.temporal.session_events import SessionEvents
from outlast.worker.connection import output_objects, sealer_from


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
