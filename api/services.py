"""The services of the API process, built once from its settings and shared by every entry point."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from temporalio.client import Client

from outlast.activities.conversations.blocks import ConversationBlocks
from outlast.activities.object_store.large_inputs import KeptParts
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_requests.downloads import PlatformBodies, RecordLinks
from outlast.activities.secrets.encryption import SecretSealer
from outlast.activities.spending.usage_store import UsageStore
from outlast.activities.webhooks.queues import Subscriptions, WebhookQueues
from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.caller_limits import CallerLimits
from outlast.api.access.limits.caller_slots import CallerSlots
from outlast.api.access.limits.quotas import McpSessions, StoredBytes
from outlast.api.access.policy.source import PolicySource, record_changes
from outlast.api.audit.chain import KEY_PURPOSE
from outlast.api.audit.log import AuditFiles, AuditLog
from outlast.api.batches.client import BatchClient, StoredRows
from outlast.api.batches.starter import BatchStarter
from outlast.api.catalog.catalog import Catalogue
from outlast.api.catalog.payment_terms import PaymentTerms
from outlast.api.operations import OperationsReader
from outlast.api.outputs import StoredOutputs
from outlast.api.saved_calls import SavedCallClient, SavedCallStore
from outlast.api.schedules.client import ScheduleClient
from outlast.api.schedules.stored_calls import DueCalls
from outlast.api.sessions.client import KeptConversations, SessionClient
from outlast.api.sessions.collection import SessionCollection
from outlast.api.sessions.turns import Informed, TurnClient
from outlast.api.settings import ApiSettings
from outlast.api.tasks.admission import Admission
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.deduplication import Deduplication
from outlast.api.tasks.fair_queue import FairQueue, KeptCount, QueueKeeper
from outlast.api.tasks.handoffs import Handoffs
from outlast.api.tasks.large_arguments import LargeArguments
from outlast.api.tasks.live_rows import TaskRows
from outlast.api.tasks.resurrection import Resurrections
from outlast.api.tasks.starter import QuickCalls, TaskStarter
from outlast.api.temporal.history import RawPayloads
from outlast.api.temporal.session_events import SessionEvents
from outlast.api.temporal.session_starts import SessionStarts
from outlast.api.usage import UsageReader
from outlast.api.webhooks.client import WebhookClient
from outlast.api.webhooks.deliveries import Deliveries
from outlast.api.webhooks.listeners import Listeners, WebhookAddresses
from outlast.disk_space import free_bytes, shortage, written_places
from outlast.worker.connection import output_objects, sealer_from, temporal_certificate_end
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE

log = logging.getLogger("outlast.api")
_NEAR_DEADLINE_SECONDS = 30
"""How long the number of hand-offs near their deadline is kept."""


class Disks:
    """Watches the folders that the settings name."""

    def __init__(self, settings: ApiSettings) -> None:
        self._places = written_places(settings.data_dir, settings.store_url, settings.audit_file)
        self._reserve_bytes = settings.disk_reserve_mbytes * 1_000_000
        self._is_short = False

    async def have_room(self, *, timeout_seconds: float) -> bool:
        """Whether each has more free space than the reserve. A disk that does not answer in time has none."""
        try:
            async with asyncio.timeout(timeout_seconds):
                found = await asyncio.to_thread(shortage, self._places, self._reserve_bytes)
        except (OSError, TimeoutError) as error:
            found = f"A disk cannot be looked at: {error or 'it does not answer'}."
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


@dataclass(frozen=True)
class Services:
    """One instance of each service."""

    settings: ApiSettings
    policy: PolicySource
    limits: CallerLimits
    mcp_sessions: McpSessions
    audit: AuditLog
    tasks: TaskClient
    resurrections: Resurrections
    task_rows: TaskRows
    shares: FairQueue
    session_starts: SessionStarts
    stored_bytes: StoredBytes
    queue_keeper: QueueKeeper
    quick_calls: QuickCalls
    open_tasks: KeptCount
    near_deadline: KeptCount
    certificate_end: datetime | None = field(default_factory=temporal_certificate_end, kw_only=True)
    """When the client certificate for Temporal ends, if it has one."""
    handoffs: Handoffs
    batches: BatchClient
    stored_rows: StoredRows
    saved_calls: SavedCallClient
    schedules: ScheduleClient
    catalogue: Catalogue
    platform_bodies: PlatformBodies
    record_links: RecordLinks
    payment_terms: PaymentTerms
    callers: CallerResolver
    sealer: SecretSealer
    outputs: StoredOutputs
    sessions: SessionClient
    session_collection: SessionCollection
    turns: TurnClient
    session_events: SessionEvents
    usage: UsageReader
    operations: OperationsReader
    raw_payloads: RawPayloads
    webhooks: WebhookClient
    deliveries: Deliveries
    uploads: CallerSlots = field(default_factory=CallerSlots)
    """Slots for files with the items of batches, which are read one after the other for each caller."""

    @cached_property
    def disks(self) -> Disks:
        """The disks of this machine."""
        return Disks(self.settings)


def build_services(settings: ApiSettings, client: Client) -> Services:
    """Build the services. Raises `SealError` when the settings name no key ring, and `PolicyError`."""
    sealer, objects = sealer_from(settings), output_objects(settings)
    platform, audit = platform_of(settings, sealer), audit_log(settings, sealer)
    catalogue = Catalogue(platform, actors=settings.actors, selectors=settings.selectors)
    policy = _policy(settings, audit)
    limits, stored_bytes = CallerLimits(policy), StoredBytes(objects, policy)
    listeners, webhooks, deliveries = _webhooks(client, settings, sealer, policy, audit, limits)
    admission = Admission(catalogue, sealer, settings, policy, audit, listeners)
    shares, quick = FairQueue(client, policy), QuickCalls(settings)
    session_starts = SessionStarts(client, policy, idle=settings.session_idle)
    arguments, fair = LargeArguments(KeptParts(objects, namespace=client.namespace)), settings.fairness
    starter = TaskStarter(client, arguments, shares, session_starts, stored_bytes, quick, fair=fair)
    outputs, ui_url = StoredOutputs(objects, audit, limits.unread), settings.temporal_ui_url
    tasks = TaskClient(client, admission, starter, audit, limits, Deduplication(client, outputs, limits), ui_url=ui_url)
    batch_starter = BatchStarter(client, objects, policy, stored_bytes, fair=fair)
    batches = BatchClient(client, admission, batch_starter, sealer, audit, limits, ui_url=ui_url)
    stored_rows = StoredRows(batches, outputs, platform)
    saved_calls = SavedCallClient(SavedCallStore(objects, namespace=client.namespace), admission, sealer, policy, audit)
    due = DueCalls(admission, saved_calls, stored_rows, sealer, policy)
    kept = KeptConversations(objects, ConversationBlocks(objects, sealer, namespace=client.namespace))
    sessions = SessionClient(client, catalogue, kept, session_starts, settings, policy, audit)
    return Services(
        settings=settings,
        policy=policy,
        limits=limits,
        mcp_sessions=McpSessions(policy, settings.mcp_session_idle_seconds),
        audit=audit,
        tasks=tasks,
        resurrections=Resurrections(client, tasks, admission, starter, limits, audit),
        task_rows=TaskRows(client, tasks, outputs, platform, limits.unread),
        shares=shares,
        session_starts=session_starts,
        stored_bytes=stored_bytes,
        queue_keeper=QueueKeeper(client, policy),
        quick_calls=quick,
        open_tasks=KeptCount(tasks.count_open),
        near_deadline=KeptCount(tasks.count_near_deadline, seconds=_NEAR_DEADLINE_SECONDS),
        handoffs=Handoffs(tasks, limits.unread),
        batches=batches,
        stored_rows=stored_rows,
        saved_calls=saved_calls,
        schedules=ScheduleClient(client, due, sealer, policy, audit, limits, ui_url=ui_url),
        catalogue=catalogue,
        platform_bodies=PlatformBodies(platform),
        record_links=RecordLinks(platform),
        payment_terms=PaymentTerms(settings.apify_api_base_url),
        callers=CallerResolver(settings, policy, platform, sealer, audit),
        sealer=sealer,
        outputs=outputs,
        sessions=sessions,
        session_collection=SessionCollection(client, sessions, kept, outputs, audit, output_ttl=settings.output_ttl),
        turns=TurnClient(client, sessions, kept, catalogue, settings, policy, Informed(audit, listeners)),
        session_events=SessionEvents(client, limits.unread),
        usage=UsageReader(client, UsageStore(objects, namespace=client.namespace), policy),
        operations=OperationsReader(client),
        raw_payloads=RawPayloads(client),
        webhooks=webhooks,
        deliveries=deliveries,
    )


def _policy(settings: ApiSettings, audit: AuditLog) -> PolicySource:
    """The policy of the operator, whose changes are audited."""
    policy = PolicySource(settings.policy_file, base=settings.policy)
    record_changes(policy, audit)
    return policy


def _webhooks(
    client: Client,
    settings: ApiSettings,
    sealer: SecretSealer,
    policy: PolicySource,
    audit: AuditLog,
    limits: CallerLimits,
) -> tuple[Listeners, WebhookClient, Deliveries]:
    """Who hears of calls, and what changes that."""
    subscriptions = Subscriptions(client, task_queue=TOOLS_TASK_QUEUE)
    addresses = WebhookAddresses(allow_private=settings.allow_private_addresses)
    listeners = Listeners(subscriptions, sealer, policy, addresses)
    queues = WebhookQueues(client, task_queue=TOOLS_TASK_QUEUE)
    webhooks = WebhookClient(subscriptions, queues, sealer, policy, audit, listeners, addresses)
    return listeners, webhooks, Deliveries(client, webhooks, queues, policy, audit, limits)


def platform_of(settings: ApiSettings, sealer: SecretSealer) -> ApifyPlatform:
    """The platform that the settings name."""
    token = settings.apify_token
    return ApifyPlatform(api_base_url=settings.apify_api_base_url, operator_token=token, sealer=sealer)


def audit_log(settings: ApiSettings, sealer: SecretSealer) -> AuditLog:
    """The audit log that the settings name. Its file is opened with the first record."""
    if settings.audit_file is None:
        return AuditLog(None)
    keys = sealer.derived_keys(KEY_PURPOSE)
    files = AuditFiles(settings.audit_file, keys, max_bytes=settings.audit_max_bytes)
    return AuditLog(files, strict=settings.audit_strict)
