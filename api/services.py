"""The services of the API process, built once from its settings and shared by every entry point."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib.metadata import version

from temporalio.client import Client

from outlast.activities.conversations.blocks import ConversationBlocks
from outlast.activities.mcp_servers.config import ServersFile
from outlast.activities.object_store import KeptParts
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_requests.activities import PlatformBodies, RecordLinks
from outlast.activities.secrets import SecretSealer
from outlast.activities.spending.contracts import SpendingCaps
from outlast.activities.spending.ledger import UsageStore
from outlast.activities.webhooks.queues import Subscriptions, WebhookQueues
from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.caller_limits import CallerLimits, CallerSlots, Used
from outlast.api.access.limits.quotas import McpSessions, StoredBytes
from outlast.api.access.policy.source import PolicySource, record_changes
from outlast.api.access.principal import Principal
from outlast.api.audit.log import AuditFiles, AuditLog
from outlast.api.audit.records import KEY_PURPOSE
from outlast.api.batches.client import BatchClient, StoredRows
from outlast.api.batches.starter import BatchStarter
from outlast.api.catalog.builtin_tools import AbsentTools, BuiltinTools
from outlast.api.catalog.catalog import Catalogue
from outlast.api.catalog.payment_terms import PaymentTerms
from outlast.api.catalog.servers import ServerTools
from outlast.api.operations import OperationsReader
from outlast.api.outputs import StoredOutputs
from outlast.api.saved_calls import DueCalls, SavedCallClient, SavedCallStore
from outlast.api.schedules.client import ScheduleClient
from outlast.api.sessions.client import KeptConversations, SessionClient
from outlast.api.sessions.collection import SessionCollection
from outlast.api.sessions.turns import Informed, TurnClient
from outlast.api.settings import ApiSettings
from outlast.api.tasks.admission import Admission
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.deduplication import Deduplication
from outlast.api.tasks.fair_queue import FairQueue, KeptCount, QueueKeeper
from outlast.api.tasks.handoffs import Handoffs
from outlast.api.tasks.live_rows import TaskRows
from outlast.api.tasks.recorded_arguments import LargeArguments
from outlast.api.tasks.repetition import Repetitions
from outlast.api.tasks.resolution import Resolutions
from outlast.api.tasks.resurrection import Resurrections
from outlast.api.tasks.starter import QuickCalls, TaskStarter
from outlast.api.temporal.history import RawPayloads
from outlast.api.temporal.session_events import SessionEvents
from outlast.api.temporal.session_starts import SessionStarts
from outlast.api.usage import UsageReader
from outlast.api.webhooks.client import Listeners, WebhookAddresses, WebhookClient
from outlast.api.webhooks.deliveries import Deliveries
from outlast.contracts.operations import Links, Me
from outlast.paths import free_bytes, shortage, written_places
from outlast.worker.connection import output_objects, sealer_from, temporal_certificate_end
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE

log = logging.getLogger("outlast.api")
_NEAR_DEADLINE_SECONDS = 30
"""Lifetime of the count of hand-offs near their deadline."""


class Disks:
    """The disks with the folders that the settings name."""

    def __init__(self, settings: ApiSettings) -> None:
        self._places = written_places(settings.data_dir, settings.store_url, settings.audit_file)
        self._reserve_bytes = settings.disk_reserve_mbytes * 1_000_000
        self._is_short = False

    async def have_room(self, *, timeout_seconds: float) -> bool:
        """Check that each has more free space than the reserve. A disk that does not answer in time has none."""
        try:
            async with asyncio.timeout(timeout_seconds):
                found = await asyncio.to_thread(shortage, self._places, self._reserve_bytes)
        except (OSError, TimeoutError) as error:
            found = f"A disk cannot be checked: {error or 'it does not answer'}."
        if found is not None and not self._is_short:
            log.error("Not ready: %s", found)
        elif found is None and self._is_short:
            log.info("Ready again: the disks have room")
        self._is_short = found is not None
        return not self._is_short

    def free(self) -> dict[str, int]:
        """Free bytes of each place that exists, by what it holds."""
        found: dict[str, int] = {}
        for name, place in self._places.items():
            with suppress(OSError):
                if place.exists():
                    found[name] = free_bytes(place)
        return found


class Services:
    """The services of a process, from its settings. Raises `PolicyError`, and `SealError` without a key ring."""

    def __init__(self, settings: ApiSettings, client: Client) -> None:
        self.settings, self.client = settings, client
        self.disks = Disks(settings)
        self.uploads = CallerSlots()
        """Slots for files with the items of batches, which are read one after the other for each caller."""
        self.certificate_end = temporal_certificate_end()
        """Expiry of the client certificate for Temporal, if any."""
        self.sealer, self._objects = sealer_from(settings), output_objects(settings)
        self.audit = audit_log(settings, self.sealer)
        self.policy = PolicySource(settings.policy_file, base=settings.policy)
        record_changes(self.policy, self.audit)
        self.limits = CallerLimits(self.policy)
        self.stored_bytes = StoredBytes(self._objects, self.policy)
        self.mcp_sessions = McpSessions(self.policy, settings.mcp_session_idle_seconds)
        self.outputs = StoredOutputs(self._objects, self.audit, self.limits.unread)
        self.usage = UsageReader(client, UsageStore(self._objects, namespace=client.namespace), self.policy)
        self.operations = OperationsReader(client)
        self.raw_payloads = RawPayloads(client)
        self._build_platform(settings, client)
        self._build_tasks(settings, client, self._build_webhooks(settings, client))

    @property
    def limits_used(self) -> tuple[Used, ...]:
        """What callers use of their limits at this process, as last counted."""
        parts = (self.limits, self.mcp_sessions, self.shares, self.session_starts, self.stored_bytes)
        return tuple(part.used() for part in parts)

    def _build_platform(self, settings: ApiSettings, client: Client) -> None:
        platform = self._platform = platform_of(settings, self.sealer)
        builtin = BuiltinTools.of(settings.builtin_tools)
        file = settings.mcp_servers_file
        self.server_tools = ServerTools(ServersFile(file), client, self.sealer) if file is not None else None
        self.catalogue = Catalogue(
            platform,
            actors=settings.actors,
            selectors=settings.selectors,
            builtin=builtin,
            defaults_need_token=settings.defaults_need_token,
            servers=self.server_tools,
        )
        self.absent_tools = AbsentTools(builtin, self.policy)
        self.platform_bodies = PlatformBodies(platform)
        self.record_links = RecordLinks(platform)
        self.payment_terms = PaymentTerms(settings.apify_api_base_url)
        self.callers = CallerResolver(settings, self.policy, platform, self.sealer, self.audit)

    def _build_webhooks(self, settings: ApiSettings, client: Client) -> Listeners:
        """Build the services of webhooks. Returns the recipients of events of calls."""
        subscriptions = Subscriptions(client, task_queue=TOOLS_TASK_QUEUE)
        addresses = WebhookAddresses(allow_private=settings.allow_private_addresses)
        listeners = Listeners(subscriptions, self.sealer, self.policy, addresses)
        queues = WebhookQueues(client, task_queue=TOOLS_TASK_QUEUE)
        self.webhooks = WebhookClient(subscriptions, queues, self.sealer, self.policy, self.audit, listeners, addresses)
        self.deliveries = Deliveries(client, self.webhooks, queues, self.policy, self.audit, self.limits)
        return listeners

    def _build_tasks(self, settings: ApiSettings, client: Client, listeners: Listeners) -> None:
        objects, policy, audit, sealer, limits = self._objects, self.policy, self.audit, self.sealer, self.limits
        namespace, fair, ui_url = client.namespace, settings.fairness, settings.temporal_ui_url
        admission = Admission(self.catalogue, sealer, settings, policy, audit, listeners)
        self.shares, self.quick_calls = FairQueue(client, policy), QuickCalls(settings)
        self.queue_keeper = QueueKeeper(client, policy)
        self.session_starts = SessionStarts(client, policy, idle=settings.session_idle)
        kept_parts = KeptParts(objects, namespace=namespace)
        arguments = LargeArguments(kept_parts)
        starter = TaskStarter(
            client, arguments, self.shares, self.session_starts, self.stored_bytes, self.quick_calls, fair=fair
        )
        reuse = Deduplication(client, self.outputs, limits)
        self.tasks = TaskClient(client, admission, starter, audit, limits, reuse, ui_url=ui_url)
        self.resurrections = Resurrections(client, self.tasks, admission, starter, limits, audit)
        self.repetitions = Repetitions(client, self.tasks, sealer, kept_parts, audit)
        self.resolutions = Resolutions(client, self.tasks, admission, starter, limits, audit)
        self.task_rows = TaskRows(client, self.tasks, self.outputs, self._platform, limits.unread)
        self.open_tasks = KeptCount(self.tasks.count_open)
        self.near_deadline = KeptCount(self.tasks.count_near_deadline, seconds=_NEAR_DEADLINE_SECONDS)
        self.handoffs = Handoffs(self.tasks, limits.unread)
        batch_starter = BatchStarter(client, objects, policy, self.stored_bytes, fair=fair)
        self.batches = BatchClient(client, admission, batch_starter, sealer, audit, limits, ui_url=ui_url)
        self.stored_rows = StoredRows(self.batches, self.outputs, self._platform)
        self.saved_calls = SavedCallClient(
            SavedCallStore(objects, namespace=namespace), admission, sealer, policy, audit
        )
        due = DueCalls(admission, self.saved_calls, self.stored_rows, sealer, policy)
        self.schedules = ScheduleClient(client, due, sealer, policy, audit, limits, ui_url=ui_url)
        kept = KeptConversations(objects, ConversationBlocks(objects, sealer, namespace=namespace))
        self.sessions = SessionClient(client, self.catalogue, kept, self.session_starts, settings, policy, audit)
        self.session_collection = SessionCollection(
            client, self.sessions, kept, self.outputs, audit, output_ttl=timedelta(seconds=settings.output_ttl_seconds)
        )
        informed = Informed(audit, listeners)
        self.turns = TurnClient(client, self.sessions, kept, self.catalogue, settings, policy, informed)
        self.session_events = SessionEvents(client, limits.unread)


def whoami(services: Services, principal: Principal) -> Me:
    """The rights and limits of `principal`, by the policy in force."""
    settings, entry = services.settings, services.policy.of(principal.caller.id)
    return Me(
        caller=principal.caller.id,
        key_id=principal.key_id,
        expires_at=principal.expires,
        scopes=tuple(sorted(principal.scopes)),
        roles=tuple(sorted(entry.roles)),
        models=entry.models,
        spending=SpendingCaps.model_validate(entry.spending.model_dump()),
        limits=entry.limits.model_dump(),
        version=version("outlast"),
        namespace=services.client.namespace,
        links=Links(temporal_ui=settings.temporal_ui_url, grafana=settings.grafana_url),
    )


@asynccontextmanager
async def current_servers(services: Services) -> AsyncGenerator[None]:
    """Keep the lists of MCP servers current during the block. Does nothing without a servers file."""
    if services.server_tools is None:
        yield
        return
    async with services.server_tools.watching():
        yield


def platform_of(settings: ApiSettings, sealer: SecretSealer) -> ApifyPlatform:
    """Return the platform that the settings name."""
    token = settings.apify_token
    return ApifyPlatform(api_base_url=settings.apify_api_base_url, operator_token=token, sealer=sealer)


def audit_log(settings: ApiSettings, sealer: SecretSealer) -> AuditLog:
    """Return the audit log that the settings name. Its file is opened with the first record."""
    if settings.audit_file is None:
        return AuditLog(None)
    keys = sealer.derived_keys(KEY_PURPOSE)
    files = AuditFiles(settings.audit_file, keys, max_bytes=settings.audit_max_bytes)
    return AuditLog(files, strict=settings.audit_strict)
