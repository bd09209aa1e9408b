"""Contracts of the dispatcher: which tasks of a caller are queued, which of them count, and how they are released."""

from datetime import UTC, datetime, timedelta

from pydantic import Field

from outlast.activities.contracts import Contract

DISPATCH_WORKFLOW = "DispatchWorkflow"
LOOK_SIGNAL = "look"
"""Signal to a dispatcher that a task may be queued, with the `DispatchInput` that holds from now on."""
RELEASE_SIGNAL = "release"
"""Signal to a queued task that it may begin. A second one changes nothing."""

NOTHING_TO_RELEASE_WORKFLOW = "NothingToRelease"

QUEUED_START_DELAY = timedelta(days=30)
"""The delay of a queued task that is never released. Temporal makes no workflow task until then."""
STARTING_COUNTS_FOR = timedelta(seconds=20)
"""The time that a call of an Actor counts before its run has started. Later it waits for the platform."""


class DispatchInput(Contract):
    """Whose tasks to release, and how many of them may work at once."""

    caller_id: str
    share: int = Field(ge=1, description="Maximum number of concurrent tasks (`concurrent_tasks` of the policy).")


def dispatch_workflow_id(caller_id: str) -> str:
    """Id of the workflow that releases the queued tasks of a caller."""
    return f"dispatch:{caller_id}"


def queued_query(caller_id: str | None = None, *, started_by: datetime | None = None) -> str:
    """Temporal's list filter for the queued tasks of a caller, or of all; with `started_by`, those from before."""
    return f"{_tasks(caller_id, started_by)} AND OutlastTaskStatus = 'queued'"


def counting_query(
    caller_id: str, *, released_through: datetime | None = None, started_by: datetime | None = None
) -> str:
    """Temporal's list filter for the tasks that count for a caller's share: those that take a worker's time.

    Not those that wait for an answer, nor those that follow a run that has started. With `released_through`, the start
    time of the last task that was released, tasks count that were released and have not begun. With `started_by`, only
    those started until then.
    """
    since = written(datetime.now(UTC) - STARTING_COUNTS_FOR)
    begins = f"(OutlastExecutor = 'none' OR StartTime > '{since}' OR OutlastReleasedAt > '{since}')"
    counting = f"OutlastTaskStatus = 'working' AND OutlastRunId IS NULL AND {begins}"
    if released_through is not None:
        released = f"OutlastTaskStatus = 'queued' AND StartTime <= '{written(released_through)}'"
        counting = f"(({counting}) OR ({released}))"
    return f"{_tasks(caller_id, started_by)} AND {counting}"


def written(moment: datetime) -> str:
    """Return a moment as list filters have it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _tasks(caller_id: str | None, started_by: datetime | None) -> str:
    parts = ["WorkflowType = 'ToolCallWorkflow'", "ExecutionStatus = 'Running'"]
    if caller_id is not None:
        parts.append(f"OutlastCaller = {_quoted(caller_id)}")
    if started_by is not None:
        parts.append(f"StartTime <= '{written(started_by)}'")
    return " AND ".join(parts)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
