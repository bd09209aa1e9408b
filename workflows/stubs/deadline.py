"""The time that is left of a task's deadline."""

from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from temporalio import workflow

from outlast.workflows.contracts.tool_calls import ToolCall

_LEAST = timedelta(seconds=1)


@runtime_checkable
class MayWait(Protocol):
    """A workflow that may wait for its turn, or for its client, for days: that time is not the tool's."""

    @property
    def began_at(self) -> datetime:
        """When it began to work."""
        ...

    @property
    def waited_for_client(self) -> timedelta:
        """How long it has waited for its client so far."""
        ...


def began_at() -> datetime:
    """When the current workflow began to work: a task that was queued counts from its release."""
    instance: object = workflow.instance()
    return instance.began_at if isinstance(instance, MayWait) else workflow.info().start_time


def remaining(call: ToolCall) -> timedelta:
    """Time until the deadline of `call`, at least one second, the least that Temporal takes as a time-out.

    Time spent in the queue, or waiting for the client, does not count.
    """
    instance: object = workflow.instance()
    waited = instance.waited_for_client if isinstance(instance, MayWait) else timedelta(0)
    deadline = began_at() + timedelta(seconds=call.options.deadline_seconds) + waited
    return max(deadline - workflow.now(), _LEAST)
