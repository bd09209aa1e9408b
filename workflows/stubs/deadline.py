"""The time that is left of a task's deadline."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from temporalio import workflow

from outlast.workflows.contracts.tool_calls import ToolCall

_LEAST = timedelta(seconds=1)


@runtime_checkable
class WaitsForClient(Protocol):
    """A workflow that may wait for its client, for days: that time is not the tool's."""

    @property
    def waited_for_client(self) -> timedelta:
        """How long it has waited so far."""
        ...


def remaining(call: ToolCall) -> timedelta:
    """Time until the deadline of `call`, at least one second, the least that Temporal takes as a time-out.

    Time spent waiting for the client does not count.
    """
    instance: object = workflow.instance()
    waited = instance.waited_for_client if isinstance(instance, WaitsForClient) else timedelta(0)
    deadline = workflow.info().start_time + timedelta(seconds=call.options.deadline_seconds) + waited
    return max(deadline - workflow.now(), _LEAST)
