"""How much of a task's time is left."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from temporalio import workflow

from outlast.workflows.contracts.tool_calls import ToolCall

_LEAST = timedelta(seconds=1)


@runtime_checkable
class WaitsForClient(Protocol):
    """A workflow that may wait for its client: for days, which are not the tool's."""

    @property
    def waited_for_client(self) -> timedelta:
        """How long it has waited so far."""
        ...


def remaining(call: ToolCall) -> timedelta:
    """Time until the deadline of `call`, at least a second: what Temporal takes as a time-out.

    The time in which the call waited for its client does not count.
    """
    instance: object = workflow.instance()
    waited = instance.waited_for_client if isinstance(instance, WaitsForClient) else timedelta(0)
    deadline = workflow.info().start_time + timedelta(seconds=call.options.deadline_seconds) + waited
    return max(deadline - workflow.now(), _LEAST)
