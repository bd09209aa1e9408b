"""A worker that polls nothing: it runs the first step of calls that its own process starts.

With an eager start (`start_workflow(request_eager_start=True)`) Temporal's answer to the start contains the first
workflow task. Nothing is matched or polled, which saves a transaction of the server. A quick call has no other task;
later steps, and those after this process died, are run by the workers that poll.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import (
    ActivityInboundInterceptor,
    CustomSlotSupplier,
    ExecuteActivityInput,
    FixedSizeSlotSupplier,
    Interceptor,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerTuner,
)

from outlast.activities.failures.classify import as_activity_failure
from outlast.activities.local_reads import LOCAL_READ_LIMIT, LocalReads
from outlast.activities.object_store import KeptParts
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_requests.activities import platform_reads
from outlast.activities.runs.activities import RunActivities
from outlast.activities.spending.ledger import Ledgers
from outlast.worker.connection import output_objects, sealer_from
from outlast.worker.settings import Settings
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.tools.first_read import FirstRead, first_read_of


class ReadAhead(Interceptor):
    """Keeps the reads that have begun until the activities of their workflows ask for them."""

    def __init__(self, reads: Sequence[Callable[[Any], Awaitable[Any]]], *, at_once: int) -> None:
        """Begin `reads`, which are methods that are activities; at most `at_once` run at once."""
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
        """Return True if the activity `name` would read the same."""
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


_CACHED_PER_SLOT = 4
"""Running calls have a slot each. The others in memory have gone over to a worker, which their end does not tell."""


class EagerSlots(CustomSlotSupplier):
    """Slots for tasks that come with the answer to a start, and none for tasks that are polled."""

    def __init__(self, slots: int) -> None:
        """Have at most `slots` in use. A start that finds none is an ordinary one."""
        self._free = threading.BoundedSemaphore(slots)

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:  # noqa: ARG002 (the SDK's interface)
        """Let every poll wait for ever. Ends when the worker stops."""
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event")

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:  # noqa: ARG002 (the SDK's interface)
        """A slot for an eager task, if one is free."""
        return SlotPermit() if self._free.acquire(blocking=False) else None

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Nothing to do: a slot counts from when it was reserved."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:  # noqa: ARG002 (the SDK's interface)
        """The task has ended, or none came with the start."""
        self._free.release()


@dataclass(frozen=True)
class EagerWorker:
    """The worker, and what begins the reads of its calls."""

    worker: Worker
    ahead: ReadAhead


def eager_worker(client: Client, settings: Settings, *, slots: int) -> EagerWorker:
    """Carries out the first step of at most `slots` calls at once that `client` starts eagerly on the tools' queue.

    It does nothing that is paid and nothing that takes long: it has the quick reads of the platform only, as local
    activities. `client` must be connected, not lazy. Raises `SealError` without a key ring, and `ValueError` when the
    output store's address cannot be one.
    """
    platform = ApifyPlatform(
        api_base_url=settings.apify_api_base_url,
        operator_token=settings.apify_token,
        sealer=sealer_from(settings),
        kept=KeptParts(output_objects(settings), namespace=client.namespace),
    )
    runs = RunActivities(platform, Ledgers(client, task_queue=TOOLS_TASK_QUEUE), console_url=settings.console)
    reads = platform_reads(platform)
    ahead = ReadAhead(reads, at_once=slots)
    worker = Worker(
        client,
        task_queue=TOOLS_TASK_QUEUE,
        workflows=[ToolCallWorkflow],
        activities=[runs.get_run, *reads],
        no_remote_activities=True,
        # A sandbox per call takes more than a millisecond. It would guard tools of other packages, which are no quick
        # reads; those of Outlast are run in it by all other workers, and in their tests.
        workflow_runner=UnsandboxedWorkflowRunner(),
        # One caller may have half of the reads, and as many as there are slots: a call that finds no slot starts the
        # normal way.
        interceptors=[LocalReads(2 * slots), ahead],
        tuner=WorkerTuner.create_composite(
            workflow_supplier=EagerSlots(slots),
            activity_supplier=FixedSizeSlotSupplier(1),
            local_activity_supplier=FixedSizeSlotSupplier(4 * slots),
            nexus_supplier=FixedSizeSlotSupplier(1),
        ),
        # With none, the SDK gives up running calls when one more begins, and they wait for their task's time-out.
        max_cached_workflows=_CACHED_PER_SLOT * slots,
        max_concurrent_workflow_task_polls=2,
        graceful_shutdown_timeout=LOCAL_READ_LIMIT,
    )
    return EagerWorker(worker, ahead)
