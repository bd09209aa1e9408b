"""Whether a workflow is stuck, and why: read from Temporal, without a worker that could replay it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.converter import DataConverter

from outlast.activities.failures.classify import redact
from outlast.activities.failures.readable import readable
from outlast.activities.secrets.content_cipher import ContentKeyMissing
from outlast.activities.stuck_tasks.contracts import SESSION, TASK, TURN, StuckLimits

STUCK_QUERY = (
    f"WorkflowType IN ('{TASK}', '{TURN}', '{SESSION}') AND ExecutionStatus = 'Running' AND "
    "TemporalReportedProblems IN ('category=WorkflowTaskFailed', 'category=WorkflowTaskTimedOut')"
)
"""The Temporal server (1.29 and newer) sets the search attribute after five failures in a row."""

_MAX_REASON_CHARS = 300
_TIMED_OUT = "the step took longer than it may"


@dataclass(frozen=True)
class Stuck:
    """How often a step has failed in a row, for how long, and the reason of the first failure."""

    attempts: int
    seconds: float
    reason: str


async def assess(
    client: Client, workflow_id: str, run_id: str, limits: StuckLimits
) -> tuple[WorkflowExecutionDescription, list[HistoryEvent], Stuck | None]:
    """The workflow, its history, and how it is stuck; None when it is not. Raises `RPCError`."""
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    description = await handle.describe()
    attempts = description.raw_description.pending_workflow_task.attempt - 1
    is_running = description.status is WorkflowExecutionStatus.RUNNING
    if is_running and attempts < limits.attempts:
        return description, [], None
    events = [event async for event in handle.fetch_history_events()]
    if not is_running:
        return description, events, None
    first = _first_failure(events)
    waited = datetime.now(UTC) - first.event_time.ToDatetime(tzinfo=UTC) if first else timedelta(0)
    if first is None or waited.total_seconds() < limits.after_seconds:
        return description, events, None
    if _failure_of(first).application_failure_info.type == ContentKeyMissing.__name__:
        # Nothing is wrong with the task: it goes on when the operator has put the key back.
        return description, events, None
    return description, events, Stuck(attempts, waited.total_seconds(), await _reason(first, client.data_converter))


def _first_failure(events: list[HistoryEvent]) -> HistoryEvent | None:
    """The first failure of the latest step. Temporal records that one and only counts those that follow."""
    for event in reversed(events):
        if event.event_type in (
            EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
            EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
        ):
            return event
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return None
    return None


def _failure_of(event: HistoryEvent) -> Failure:
    return event.workflow_task_failed_event_attributes.failure


async def _reason(event: HistoryEvent, converter: DataConverter) -> str:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
        return _TIMED_OUT
    message = redact((await readable(_failure_of(event), converter)).message.strip())
    line = message.partition("\n")[0]
    return line if len(line) <= _MAX_REASON_CHARS else line[: _MAX_REASON_CHARS - 1] + "…"
