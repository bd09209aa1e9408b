"""A Temporal client whose reads of histories fail as told; the server behind it is real."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, FetchWorkflowHistoryEventsInput, Interceptor, OutboundInterceptor

Fault = Exception | Callable[[], Awaitable[None]]
"""What is raised, or is done instead."""


def with_faults(client: Client, faults: Sequence[Fault], *, after: int) -> Client:
    """`client`, but each time `after` entries of a history were read the next of `faults` happens; in the end, none."""
    config = client.config()
    config["interceptors"] = [*config["interceptors"], _Faults(list(faults), after)]
    return Client(**config)


class _Faults(Interceptor):
    def __init__(self, left: list[Fault], after: int) -> None:
        self.left = left
        self.after = after

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # temporalio's name
        return _Outbound(next, self)


class _Outbound(OutboundInterceptor):
    def __init__(self, next_one: OutboundInterceptor, faults: _Faults) -> None:
        super().__init__(next_one)
        self._faults = faults

    def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> Any:  # noqa: A002  # as above
        return _Entries(super().fetch_workflow_history_events(input), self._faults)


class _Entries:
    def __init__(self, entries: Any, faults: _Faults) -> None:
        self._entries, self._faults, self._read = entries, faults, 0

    def __aiter__(self) -> "_Entries":
        return self

    async def __anext__(self) -> HistoryEvent:
        self._read += 1
        if self._faults.left and self._read > self._faults.after:
            fault = self._faults.left.pop(0)
            if isinstance(fault, Exception):
                raise fault
            await fault()
        return await anext(self._entries)
