"""How much of a task's time is left."""

from datetime import timedelta

from temporalio import workflow

from workflows.models import ToolCall

_LEAST = timedelta(seconds=1)


def remaining(call: ToolCall) -> timedelta:
    """Time until the deadline of `call`, at least a second: what Temporal takes as a time-out."""
    deadline = workflow.info().start_time + timedelta(seconds=call.options.deadline_seconds)
    return max(deadline - workflow.now(), _LEAST)
