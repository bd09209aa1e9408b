"""Begins what a quick call reads while Temporal still records its start, where one process does both.

A quick call is two transactions of the Temporal server's with a read between them. The read needs nothing of the first:
it changes nothing and is paid by nobody. So it begins with the start, and the workflow's activity gets what it has got.
Whatever happens to the workflow, nothing depends on it: an activity that finds no such read makes its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.local_reads import LOCAL_READ_LIMIT
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.tools.first_read import FirstRead, first_read_of


class ReadAhead(Interceptor):
    """Keeps the reads that have begun until the activities of their workflows ask for them."""

    def __init__(self, reads: Sequence[Callable[[Any], Awaitable[Any]]], *, at_once: int) -> None:
        """Begin `reads`, which are methods that are activities; at most `at_once` go on at once."""
        self._reads = {read.__name__: read for read in reads}
        self._at_once = at_once
        self._under_way = 0
        self._begun: dict[str, _Begun] = {}

    @contextmanager
    def of(self, call: ToolCall, task_id: str) -> Generator[None]:
        """Begin what `call` reads first, while the block starts its workflow `task_id`. Without a start, give it up.

        It begins when the block first waits for something.
        """
        if self._under_way >= self._at_once:
            yield
            return
        begun = self._begun[task_id] = _Begun(call, self._reads, ended=self._has_ended)
        self._under_way += 1
        limit = LOCAL_READ_LIMIT.total_seconds()
        begun.limit = asyncio.get_running_loop().call_later(limit, self._give_up, task_id, begun)
        try:
            yield
        except BaseException:
            self._give_up(task_id, begun)
            raise

    def take(self, task_id: str) -> "_Begun | None":
        """The read that was begun for the task; returned once."""
        begun = self._begun.pop(task_id, None)
        if begun is not None and begun.limit is not None:
            begun.limit.cancel()  # It would keep what was read for seconds.
        return begun

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (the SDK's name)
        """Answer the activities whose read has begun."""
        return _Answered(next, self)

    def _has_ended(self) -> None:
        self._under_way -= 1

    def _give_up(self, task_id: str, begun: "_Begun") -> None:
        if self._begun.get(task_id) is begun:
            self.take(task_id)
            begun.cancel()


class _Begun:
    """One read, from when it is found out what it is."""

    def __init__(
        self, call: ToolCall, reads: dict[str, Callable[[Any], Awaitable[Any]]], *, ended: Callable[[], None]
    ) -> None:
        self.limit: asyncio.TimerHandle | None = None
        """When it is given up, if no activity has asked for it."""
        self._read: FirstRead | None = None
        self._ended = ended
        self._reading = asyncio.create_task(self._begin(call, reads))
        self._reading.add_done_callback(self._done)

    async def _begin(self, call: ToolCall, reads: dict[str, Callable[[Any], Awaitable[Any]]]) -> Any:
        found = first_read_of(call)
        read = reads.get(found.method.__name__) if found else None
        if read is None or found is None:
            return None
        self._read = found
        return await read(found.request)

    def is_for(self, name: str, request: object) -> bool:
        """Whether the activity `name` would read the same."""
        return self._read is not None and self._read.method.__name__ == name and self._read.request == request

    def _done(self, reading: "asyncio.Task[Any]") -> None:
        self._ended()
        if not reading.cancelled():
            # A failure that no activity asks for is no failure: asyncio would log it.
            reading.exception()

    def cancel(self) -> None:
        self._reading.cancel()

    async def result(self) -> Any:
        return await self._reading


class _Answered(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, ahead: ReadAhead) -> None:
        super().__init__(inner)
        self._ahead = ahead

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        workflow_id = activity.info().workflow_id
        begun = self._ahead.take(workflow_id) if workflow_id else None
        if begun is None:
            return await super().execute_activity(input)
        if len(input.args) != 1 or not begun.is_for(input.fn.__name__, input.args[0]):
            begun.cancel()
            return await super().execute_activity(input)
        with as_activity_failure():
            return await begun.result()
