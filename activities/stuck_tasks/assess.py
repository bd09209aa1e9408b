"""Decides whether a workflow is stuck, and why: read from Temporal, without a worker that could replay it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.converter import DataConverter

from outlast.activities.failures.classify import redact
from outlast.activities.secrets import ContentKeyMissing
from outlast.activities.stuck_tasks.contracts import CANCELLED_LIMITS, REMEDIES, TOOL_CHANGED, StuckLimits
from outlast.activities.stuck_tasks.histories import readable

_TYPES = ", ".join(f"'{name}'" for name in sorted(REMEDIES))
STUCK_QUERY = (
    f"WorkflowType IN ({_TYPES}) AND ExecutionStatus = 'Running' AND "
    "TemporalReportedProblems IN ('category=WorkflowTaskFailed', 'category=WorkflowTaskTimedOut')"
)
"""The Temporal server (1.29 and newer) sets the search attribute after a few failures in a row."""

_FAILURES = frozenset({EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT})
_MAX_REASON_CHARS = 300
_PAGE = 200
_TIMED_OUT = "the step took longer than it may"


@dataclass(frozen=True)
class Stuck:
    """The failures of a step in a row: their number, their duration, and the reason of the first one."""

    attempts: int
    seconds: float
    reason: str


def reported(client: Client, *, limit: int | None = None) -> AsyncIterator[WorkflowExecution]:
    """Return the workflows whose steps fail again and again, as Temporal reports them. Raises `RPCError`."""
    return client.list_workflows(STUCK_QUERY, limit=limit, page_size=min(limit or _PAGE, _PAGE))


def failed_attempts(description: WorkflowExecutionDescription) -> int:
    """Return the number of times in a row that the current step of a workflow has failed."""
    return max(0, description.raw_description.pending_workflow_task.attempt - 1)


def is_cancelled(description: WorkflowExecutionDescription) -> bool:
    """Return True if cancellation of the workflow was requested."""
    return description.raw_description.workflow_extended_info.cancel_requested


async def assess(
    client: Client, workflow_id: str, run_id: str, limits: StuckLimits | None
) -> tuple[WorkflowExecutionDescription, list[HistoryEvent], Stuck | None]:
    """The workflow, and how it is stuck; None when it is not. With its history if it is stuck or has ended. A cancelled
    workflow is stuck sooner than after `limits`, and one that is not cancelled never is if they are None. Raises
    `RPCError`.
    """
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    description = await handle.describe()
    stuck = None
    if description.status is WorkflowExecutionStatus.RUNNING:
        limits = _sooner(limits) if is_cancelled(description) else limits
        stuck = await _stuck(client, description, limits) if limits is not None else None
        if stuck is None:
            return description, [], None
    return description, [event async for event in handle.fetch_history_events()], stuck


async def changed_tool(client: Client, execution: WorkflowExecution) -> str | None:
    """The change of its tool because of which a call waits; None if its step fails for another reason. Raises
    `RPCError`.
    """
    failures = await _failures(client, execution)
    if not failures or _failure_of(failures[0]).application_failure_info.type != TOOL_CHANGED:
        return None
    return await _reason(failures[0], client.data_converter)


def _sooner(limits: StuckLimits | None) -> StuckLimits:
    if limits is None:
        return CANCELLED_LIMITS
    return StuckLimits(
        attempts=min(limits.attempts, CANCELLED_LIMITS.attempts),
        after_seconds=min(limits.after_seconds, CANCELLED_LIMITS.after_seconds),
    )


async def _stuck(client: Client, description: WorkflowExecutionDescription, limits: StuckLimits) -> Stuck | None:
    if failed_attempts(description) < 1:
        return None
    failures = await _failures(client, description)
    if not failures:
        return None
    # Temporal records the first failures of a step and counts those that follow. A signal makes it begin both again.
    attempts, first = max(len(failures), failed_attempts(description)), failures[-1]
    waited = datetime.now(UTC) - first.event_time.ToDatetime(tzinfo=UTC)
    if attempts < limits.attempts or waited.total_seconds() < limits.after_seconds:
        return None
    kind = _failure_of(first).application_failure_info.type
    if kind == ContentKeyMissing.__name__ or (kind == TOOL_CHANGED and not is_cancelled(description)):
        # The workflow itself is intact: it continues when the operator has put the key, or the tool, back.
        return None
    return Stuck(attempts, waited.total_seconds(), await _reason(first, client.data_converter))


async def _failures(client: Client, description: WorkflowExecution) -> list[HistoryEvent]:
    """The recorded failures since a step was completed, the last one first: the end of a history is read, not all."""
    found: list[HistoryEvent] = []
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=ExecutionId(workflow_id=description.id, run_id=description.run_id or ""),
        maximum_page_size=_PAGE,
    )
    while True:
        page = await client.workflow_service.get_workflow_execution_history_reverse(request, retry=True)
        for event in page.history.events:
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                return found
            if event.event_type in _FAILURES:
                found.append(event)
        request.next_page_token = page.next_page_token
        if not page.next_page_token:
            return found


def _failure_of(event: HistoryEvent) -> Failure:
    return event.workflow_task_failed_event_attributes.failure


async def _reason(event: HistoryEvent, converter: DataConverter) -> str:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
        return _TIMED_OUT
    message = redact((await readable(_failure_of(event), converter)).message.strip())
    line = message.partition("\n")[0]
    return line if len(line) <= _MAX_REASON_CHARS else line[: _MAX_REASON_CHARS - 1] + "…"
