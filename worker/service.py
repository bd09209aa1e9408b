"""The Temporal workers of one process: which task queue serves which workflows and activities, with how many slots."""

import asyncio
import os
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.runtime import Runtime
from temporalio.worker import PollerBehaviorAutoscaling, Worker

from outlast.activities.batches.activities import BatchActivities, FairShare
from outlast.activities.conversations.activities import ConversationActivities, SessionDeletionActivities
from outlast.activities.conversations.blocks import ConversationBlocks, ConversationSweep
from outlast.activities.dispatch.activities import DispatchActivities
from outlast.activities.failures.classify import RepeatedFailures
from outlast.activities.llm.compaction import CompactionActivities
from outlast.activities.local_reads import LocalReads
from outlast.activities.mcp_servers.activities import McpActorActivities
from outlast.activities.mcp_servers.config import ServersFile
from outlast.activities.mcp_servers.servers import McpServerActivities
from outlast.activities.object_store import KeptParts, OutputObjects
from outlast.activities.outputs.activities import OutputActivities
from outlast.activities.outputs.sweep import OutputSweepActivities, TemporalTasks
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_requests.activities import PlatformWriteActivities, RunWatchActivities, platform_reads
from outlast.activities.runs.activities import RunActivities, RunTiming
from outlast.activities.runs.resurrection import RunResurrections
from outlast.activities.runs.spending import BudgetNotices, SpendingActivities
from outlast.activities.schedules.activities import FiringActivities
from outlast.activities.secrets import SecretSealer
from outlast.activities.spending.ledger import Ledgers, UsageStore
from outlast.activities.stuck_tasks.activities import StuckTaskActivities
from outlast.activities.web.address_rules import AddressRules
from outlast.activities.webhooks.activities import WebhookActivities
from outlast.activities.webhooks.posting import WebhookPoster
from outlast.activities.webhooks.queues import Subscriptions, WebhookQueues
from outlast.worker.connection import StoreOwnership, output_objects, sealer_from
from outlast.worker.functions_loop import FunctionsLoop
from outlast.worker.inner_calls import InnerSecrets
from outlast.worker.item_tasks import WorkflowItemTasks
from outlast.worker.plain_functions import PlainFunctions
from outlast.worker.schedule_work import WorkflowWork
from outlast.worker.server_listings import ListedTools
from outlast.worker.settings import WorkerSettings
from outlast.worker.shared_tools import model_activities, shared_tool_activities, web_activities
from outlast.workflows.batches.batch import BatchWorkflow
from outlast.workflows.contracts.queues import (
    FUNCTIONS_TASK_QUEUE,
    MODELS_TASK_QUEUE,
    OUTPUTS_TASK_QUEUE,
    RUNS_TASK_QUEUE,
    SERVERS_TASK_QUEUE,
    TOOLS_TASK_QUEUE,
)
from outlast.workflows.dispatch import DispatchWorkflow, NothingToRelease
from outlast.workflows.resolution import TaskResolutionWorkflow
from outlast.workflows.retention import RetentionWorkflow
from outlast.workflows.schedules.firing import ScheduleFiringWorkflow
from outlast.workflows.servers import McpRequestWorkflow, McpServerWorkflow
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.spending.ledger import SpendLedgerWorkflow
from outlast.workflows.stuck import EndStuckWorkflow
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.turn import TurnWorkflow
from outlast.workflows.webhooks.deliveries import (
    WebhookDeliveryWorkflow,
    WebhookQueueWorkflow,
    WebhookSubscriptionsWorkflow,
)

WORKFLOWS = (
    ToolCallWorkflow,
    SessionWorkflow,
    TurnWorkflow,
    RetentionWorkflow,
    SpendLedgerWorkflow,
    EndStuckWorkflow,
    TaskResolutionWorkflow,
    DispatchWorkflow,
    NothingToRelease,
    BatchWorkflow,
    ScheduleFiringWorkflow,
    WebhookSubscriptionsWorkflow,
    WebhookDeliveryWorkflow,
    WebhookQueueWorkflow,
    McpServerWorkflow,
    McpRequestWorkflow,
)


_SHARE_OF_LOCAL_READS = 4
"""One in so many of the slots for short activities is for reads that keep a workflow task."""
_LEAST_TASKS = 100
"""The SDK's own number of slots for workflow tasks, and for local activities."""


@asynccontextmanager
async def serving(client: Client, settings: WorkerSettings) -> AsyncGenerator[None]:
    """Serve the queues of `settings` while the block runs.

    When it ends, no queue is polled any more, followed runs are handed over at once, and other activities get
    `shutdown_seconds` to finish.
    """
    file = ServersFile(settings.mcp_servers_file) if settings.mcp_servers_file is not None else None
    activities = build_activities(settings, client, ListedTools(file, client) if file is not None else None)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(activities.close)
        workers = [
            build(client, settings, activities) for queue, build in _WORKERS.items() if queue in settings.task_queues
        ]
        if file is not None:
            servers = _server_activities(settings, client, file)
            stack.push_async_callback(servers.close)
            workers += _servers_workers(client, settings, servers)
        for worker in workers:
            await stack.enter_async_context(worker)
        try:
            yield
        finally:
            # All at once: one after the other, the last would take new work, and keep its own, for minutes.
            await asyncio.gather(*(worker.shutdown() for worker in workers))


def _runs_worker(client: Client, settings: WorkerSettings, activities: "Activities") -> Worker:
    return Worker(
        client,
        task_queue=RUNS_TASK_QUEUE,
        deployment_config=settings.deployment,
        activities=activities.waiting,
        interceptors=[RepeatedFailures()],
        max_concurrent_activities=settings.run_slots,
        activity_task_poller_behavior=PollerBehaviorAutoscaling(),
        graceful_shutdown_timeout=settings.shutdown_time,  # For tools of MCP servers; runs are handed over.
        max_heartbeat_throttle_interval=settings.progress_interval,
        default_heartbeat_throttle_interval=settings.progress_interval,
    )


def _outputs_worker(client: Client, settings: WorkerSettings, activities: "Activities") -> Worker:
    return Worker(
        client,
        task_queue=OUTPUTS_TASK_QUEUE,
        deployment_config=settings.deployment,
        activities=activities.outputs,
        interceptors=[RepeatedFailures()],
        max_concurrent_activities=settings.output_slots or os.cpu_count() or 1,
        graceful_shutdown_timeout=timedelta(0),  # Any worker continues where this one stopped.
    )


def _functions_worker(client: Client, settings: WorkerSettings, activities: "Activities") -> Worker:
    return Worker(
        client,
        task_queue=FUNCTIONS_TASK_QUEUE,
        deployment_config=settings.deployment,
        activities=activities.functions,
        interceptors=[RepeatedFailures()],
        max_concurrent_activities=settings.function_slots,
        activity_task_poller_behavior=PollerBehaviorAutoscaling(),
        graceful_shutdown_timeout=settings.shutdown_time,
        max_heartbeat_throttle_interval=settings.progress_interval,
        default_heartbeat_throttle_interval=settings.progress_interval,
    )


def _models_worker(client: Client, settings: WorkerSettings, activities: "Activities") -> Worker:
    return Worker(
        client,
        task_queue=MODELS_TASK_QUEUE,
        deployment_config=settings.deployment,
        activities=activities.models,
        interceptors=[RepeatedFailures()],
        max_concurrent_activities=settings.model_slots,
        activity_task_poller_behavior=PollerBehaviorAutoscaling(),
        graceful_shutdown_timeout=settings.shutdown_time,  # An interrupted answer is paid for twice.
        max_heartbeat_throttle_interval=settings.progress_interval,
        default_heartbeat_throttle_interval=settings.progress_interval,
    )


def _tools_worker(client: Client, settings: WorkerSettings, activities: "Activities") -> Worker:
    local_reads = settings.tool_slots // _SHARE_OF_LOCAL_READS
    return Worker(
        client,
        task_queue=TOOLS_TASK_QUEUE,
        deployment_config=settings.deployment,
        workflows=WORKFLOWS,
        activities=activities.short,
        max_concurrent_activities=settings.tool_slots - local_reads,
        interceptors=[LocalReads(local_reads), RepeatedFailures()],
        # A read for which there is no room says so at once; these make sure that it gets to say so.
        max_concurrent_local_activities=max(_LEAST_TASKS, 2 * local_reads),
        max_concurrent_workflow_tasks=max(_LEAST_TASKS, 2 * local_reads),
        workflow_task_poller_behavior=PollerBehaviorAutoscaling(),
        activity_task_poller_behavior=PollerBehaviorAutoscaling(),
        graceful_shutdown_timeout=settings.shutdown_time,
        max_cached_workflows=settings.cached_workflows,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=settings.takeover_seconds),
    )


def _server_activities(settings: WorkerSettings, client: Client, file: ServersFile) -> McpServerActivities:
    queue = f"{SERVERS_TASK_QUEUE}-{uuid.uuid4().hex[:12]}"
    runtime = client.service_client.config.runtime or Runtime.default()
    meter = runtime.metric_meter.with_additional_attributes({"namespace": client.namespace})
    objects, sealer = output_objects(settings), sealer_from(settings)
    return McpServerActivities(file, client, objects, sealer, meter, queue=queue, workflows_queue=TOOLS_TASK_QUEUE)


def _servers_workers(client: Client, settings: WorkerSettings, servers: McpServerActivities) -> list[Worker]:
    """Poll the queue of all workers with a file of servers, and the queue for the sessions of this one."""
    return [
        Worker(
            client,
            task_queue=queue,
            deployment_config=settings.deployment if queue == SERVERS_TASK_QUEUE else None,
            activities=[
                servers.list_server_tools,
                servers.call_server_tool,
                servers.request_server,
                servers.check_server_call,
            ],
            max_concurrent_activities=settings.run_slots,
            graceful_shutdown_timeout=settings.shutdown_time,
            max_heartbeat_throttle_interval=settings.progress_interval,
            default_heartbeat_throttle_interval=settings.progress_interval,
        )
        for queue in (SERVERS_TASK_QUEUE, servers.queue)
    ]


_WORKERS: dict[str, Callable[[Client, WorkerSettings, "Activities"], Worker]] = {
    RUNS_TASK_QUEUE: _runs_worker,
    OUTPUTS_TASK_QUEUE: _outputs_worker,
    FUNCTIONS_TASK_QUEUE: _functions_worker,
    MODELS_TASK_QUEUE: _models_worker,
    TOOLS_TASK_QUEUE: _tools_worker,
}
"""In the order in which they start: workflows last, when what they call is served."""


@dataclass(frozen=True)
class Activities:
    """The activities of a worker, by their kind.

    `short` take seconds, `waiting` as long as a run, `outputs` keep a processor busy, `models` take as long as a model
    answers, `functions` as long as their tools.
    """

    short: Sequence[Callable[..., Any]]
    waiting: Sequence[Callable[..., Any]]
    outputs: Sequence[Callable[..., Any]]
    models: Sequence[Callable[..., Any]]
    functions: Sequence[Callable[..., Any]]
    close: Callable[[], Awaitable[None]]
    """Closes the open connections."""


def build_activities(settings: WorkerSettings, client: Client, listed_tools: ListedTools | None = None) -> Activities:
    """The activities with their clients. Raises `SealError` when there is no key ring."""
    sealer = sealer_from(settings)
    objects = output_objects(settings)
    platform = ApifyPlatform(
        api_base_url=settings.apify_api_base_url,
        operator_token=settings.apify_token,
        sealer=sealer,
        request_timeout=settings.request_timeout,
        kept=KeptParts(objects, namespace=client.namespace),
    )
    ledgers = _ledgers(settings, client)
    runs = _runs(settings, client, platform, ledgers)
    resurrections = RunResurrections(platform, ledgers, console_url=settings.console, timing=_timing(settings))
    mcp_actors = McpActorActivities(platform, ledgers)
    outputs = OutputActivities(platform, objects)
    conversations = ConversationBlocks(objects, sealer, namespace=client.namespace)
    tasks = TemporalTasks(client)
    sweep = _sweep(settings, client, objects, conversations)
    spending = SpendingActivities(platform, tasks, UsageStore(objects, namespace=client.namespace))
    models = model_activities(settings, conversations, ledgers)
    compaction = CompactionActivities(models, conversations)
    secrets = InnerSecrets(platform, sealer)
    functions = PlainFunctions(loop=FunctionsLoop(), inner_secrets=secrets, listed_tools=listed_tools)
    batches, firings = _batches(objects, client, ledgers), _firings(client, objects, ledgers)
    return Activities(
        short=(
            runs.start_run,
            runs.abort_run,
            runs.get_run,
            resurrections.resurrect_run,
            mcp_actors.list_mcp_tools,
            spending.find_charges,
            spending.read_charges,
            *_changes_in_temporal(client, firings),
            *_platform_objects(platform),
            ConversationActivities(conversations).keep_messages,
            *_web_reads(settings),
            *shared_tool_activities(settings),
        ),
        waiting=(
            runs.wait_for_run,
            mcp_actors.call_mcp_tool,
            batches.carry_on_batch,
            *_waits(settings, client, firings, sealer),
        ),
        outputs=(
            sweep.sweep_page,
            spending.keep_usage,
            outputs.store_dataset,
            outputs.store_record,
            outputs.store_content,
            outputs.restore_output,
            batches.prepare_batch_leg,
            batches.close_batch,
            SessionDeletionActivities(client, objects, conversations).forget_session,
        ),
        models=(models.call_model, compaction.summarise_piece, compaction.keep_summary),
        functions=(functions.run_plain_function, functions.decide_approval, functions.admit_inner_call),
        close=models.close,
    )


def _sweep(
    settings: WorkerSettings, client: Client, objects: OutputObjects, conversations: ConversationBlocks
) -> OutputSweepActivities:
    tasks, grace = TemporalTasks(client), settings.sweep_grace
    return OutputSweepActivities(
        objects,
        tasks,
        grace=grace,
        conversations=ConversationSweep(objects, conversations, tasks, grace=grace),
        ownership=StoreOwnership.of(client, settings),
    )


def _ledgers(settings: WorkerSettings, client: Client) -> Ledgers:
    check_after = settings.reservation_check.total_seconds()
    return Ledgers(client, task_queue=TOOLS_TASK_QUEUE, check_after_seconds=check_after)


def _timing(settings: WorkerSettings) -> RunTiming:
    return RunTiming(
        start_settle=settings.start_settle,
        poll_min=timedelta(seconds=max(1, round(settings.progress_seconds))),
        request_timeout=settings.request_timeout,
    )


def _runs(settings: WorkerSettings, client: Client, platform: ApifyPlatform, ledgers: Ledgers) -> RunActivities:
    return RunActivities(
        platform,
        ledgers,
        console_url=settings.console,
        timing=_timing(settings),
        restored=settings.restored_period,
        notices=BudgetNotices(client, task_queue=TOOLS_TASK_QUEUE),
    )


def _waits(
    settings: WorkerSettings, client: Client, firings: FiringActivities, sealer: SecretSealer
) -> Sequence[Callable[..., Any]]:
    """Activities that wait for other tasks, for work that a schedule started, and for receivers of events."""
    dispatch = DispatchActivities(client, task_queue=TOOLS_TASK_QUEUE)
    return (
        dispatch.release_queued,
        firings.await_firing,
        *_webhooks(settings, client, sealer),
    )


def _webhooks(settings: WorkerSettings, client: Client, sealer: SecretSealer) -> Sequence[Callable[..., Any]]:
    """Events are delivered under the same rules on addresses as pages are fetched for users."""
    rules = AddressRules(allow_private=settings.allow_private_addresses)
    webhooks = WebhookActivities(
        client,
        Subscriptions(client, task_queue=TOOLS_TASK_QUEUE),
        WebhookQueues(client, task_queue=TOOLS_TASK_QUEUE),
        sealer,
        WebhookPoster(rules, timeout_seconds=settings.webhook_timeout_seconds, proxy_resolves=settings.proxy_resolves),
        first_pause=timedelta(seconds=settings.webhook_first_pause_seconds),
        give_up=timedelta(hours=settings.webhook_retry_hours),
    )
    return webhooks.attempt_webhook, webhooks.deliver_waiting, webhooks.deliver_webhook


def _batches(objects: OutputObjects, client: Client, ledgers: Ledgers) -> BatchActivities:
    tasks, namespace = WorkflowItemTasks(client, objects, ledgers), client.namespace
    return BatchActivities(objects, tasks, lambda place: FairShare(client, place), namespace=namespace)


def _changes_in_temporal(client: Client, firings: FiringActivities) -> Sequence[Callable[..., Any]]:
    stuck = StuckTaskActivities(client)
    return (stuck.end_stuck_task, stuck.cancel_items, firings.cancel_firing, firings.pause_schedule)


def _firings(client: Client, objects: OutputObjects, ledgers: Ledgers) -> FiringActivities:
    return FiringActivities(client, WorkflowWork(client, objects, ledgers))


def _platform_objects(platform: ApifyPlatform) -> Sequence[Callable[..., Any]]:
    watching, writing = RunWatchActivities(platform), PlatformWriteActivities(platform)
    return (*platform_reads(platform), watching.watch_run, writing.write_platform)


def _web_reads(settings: WorkerSettings) -> Sequence[Callable[..., Any]]:
    web = web_activities(settings)
    return (web.search_docs, web.fetch_docs_page, web.fetch_html_skeleton)
