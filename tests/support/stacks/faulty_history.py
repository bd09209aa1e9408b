"""A Temporal client whose reads of histories fail as told; the server behind it is real."""

from collections import deque
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
        self.read: dict[str, int] = {}
        """Entries of each workflow's history, since it was last read from its beginning."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # temporalio's name
        return _Outbound(next, self)


class _Outbound(OutboundInterceptor):
    def __init__(self, next_one: OutboundInterceptor, faults: _Faults) -> None:
        super().__init__(next_one)
        self._faults = faults

    def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> Any:  # noqa: A002  # as above
        return _Pages(super().fetch_workflow_history_events(input), self._faults, input)


class _Pages:
    """A page with more entries than are to be read ends after them, and the fault comes in place of the next page."""

    def __init__(self, pages: Any, faults: _Faults, asked: FetchWorkflowHistoryEventsInput) -> None:
        self._pages, self._faults, self._workflow = pages, faults, asked.id
        self._left: deque[HistoryEvent] = deque()
        self.current_page: list[HistoryEvent] = []
        self.next_page_token: bytes | None = None
        if not asked.next_page_token:
            faults.read[asked.id] = 0

    async def fetch_next_page(self) -> None:
        await self._pages.fetch_next_page()
        self.current_page, self.next_page_token = list(self._pages.current_page), self._pages.next_page_token
        before = self._faults.read[self._workflow]
        self._faults.read[self._workflow] += len(self.current_page)
        if not self._faults.left or before + len(self.current_page) <= self._faults.after:
            return
        if before < self._faults.after:
            del self.current_page[self._faults.after - before :]
            self.next_page_token = self.next_page_token or b"none, but the fault comes before that is noticed"
            return
        fault = self._faults.left.pop(0)
        if isinstance(fault, StopAsyncIteration):
            self.current_page, self.next_page_token = [], None
        elif isinstance(fault, Exception):
            raise fault
        else:
            await fault()
            assert not self._faults.after, "the rest of a page that was cut would be lost"

    def __aiter__(self) -> "_Pages":
        return self

    async def __anext__(self) -> HistoryEvent:
        while not self._left:
            if self.current_page and self.next_page_token is None:
                raise StopAsyncIteration
            await self.fetch_next_page()
            self._left.extend(self.current_page)
        return self._left.popleft()
