"""Log lines, times and search attributes of a task. Each event of a task is one log line; a replay writes none.

Entry points write the first ones, `accepted` and `queued`, with the same fields."""

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol, runtime_checkable

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate

from outlast.workflows.contracts.tool_calls import ToolCall

TASK_LOGGER: Final = "outlast.tasks"
"""Logger of these lines. Settings select which of them are written, see `worker/logs.py`."""
TaskEvent = Literal["accepted", "queued", "started", "run_started", "run_resurrected", "waiting", "ended"]
Part = Literal["queue", "start", "run", "fetch", "store", "person"]
"""Parts of a task's time: queued; starting or following a run, reading data, storing outputs; waiting for an answer."""
MESSAGES: Final[dict[TaskEvent, str]] = {
    "accepted": "task accepted",
    "queued": "task queued",
    "started": "task started",
    "run_started": "run started",
    "run_resurrected": "run resurrected",
    "waiting": "task waits for somebody",
    "ended": "task ended",
}
_log = workflow.LoggerAdapter(logging.getLogger(TASK_LOGGER), None)
_log.workflow_info_on_message = False


@runtime_checkable
class TaskWorkflow(Protocol):
    """A workflow that is a task."""

    call: ToolCall
    seconds_on: dict[Part, float]
    """Seconds spent on each part so far."""
    began_at: datetime
    waited_for_client: timedelta


def current_task() -> TaskWorkflow | None:
    """Return the current workflow if it is a task."""
    instance: object = workflow.instance()
    return instance if isinstance(instance, TaskWorkflow) else None


def task_facts(event: TaskEvent, call: ToolCall, task_id: str) -> dict[str, Any]:
    """Return the fields of every line about a task."""
    return {
        "task_event": event,
        "task": task_id,
        "tool": call.tool,
        "caller": call.caller.id,
        "session": call.session_id,
    }


def log_task_event(event: TaskEvent, **facts: Any) -> None:
    """Log an event of the current task."""
    if task := current_task():
        known = task_facts(event, task.call, workflow.info().workflow_id)
        _log.info(MESSAGES[event], extra={**known, **facts})


def log_accepted(call: ToolCall, task_id: str) -> None:
    """Log that a turn has started a call as a task."""
    _log.info(MESSAGES["accepted"], extra=task_facts("accepted", call, task_id))


def log_end(outcome: str, *, error: str | None) -> None:
    """Log the outcome of the task, and the seconds spent on each part since its acceptance."""
    task = current_task()
    if not task:
        return
    total = workflow.now() - workflow.info().workflow_start_time
    parts = {f"{part}_seconds": round(seconds, 3) for part, seconds in task.seconds_on.items() if seconds >= 0.001}
    failure = {"error": error} if error is not None else {}
    log_task_event("ended", outcome=outcome, seconds=round(total.total_seconds(), 3), **parts, **failure)


@contextmanager
def timed(part: Part) -> Generator[None]:
    """Count the time of the block as spent on `part`."""
    began = workflow.now()
    try:
        yield
    finally:
        spent_on(part, workflow.now() - began)


def spent_on(part: Part, time: timedelta) -> None:
    """Count `time` as spent on `part`."""
    if task := current_task():
        task.seconds_on[part] = task.seconds_on.get(part, 0.0) + time.total_seconds()


_Change = SearchAttributeUpdate[str] | SearchAttributeUpdate[datetime]


def upsert_search_attributes(*updates: _Change) -> None:
    """Change search attributes of the current workflow."""
    workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open


class TaskAttributes:
    """Changes of a task's search attributes. Those of one step are one event of its history, and one billed action."""

    def __init__(self) -> None:
        self._changes: dict[str, _Change] = {}

    def change(self, *updates: _Change) -> None:
        """Make these changes when the workflow next waits, or with `write`."""
        if not self._changes:
            asyncio.get_running_loop().call_soon(self.write)
        self._changes.update({update.key.name: update for update in updates})

    def write(self) -> None:
        """Make the changes now, because a workflow that ends does not wait again."""
        if self._changes:
            upsert_search_attributes(*self._changes.values())
            self._changes.clear()
