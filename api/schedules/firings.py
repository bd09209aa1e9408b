"""`CallerFirings`: starts what is due as its caller would now; `FiringHost`: polls the queue for it in the API."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from temporalio.service import RPCError
from temporalio.worker import Worker

from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.exceptions import SealError
from outlast.activities.runs.contracts import Budget
from outlast.activities.schedules.activities import FiringStartActivities
from outlast.activities.schedules.contracts import Due, FiringStart, Started, StartedKind, StartFiringInput
from outlast.api.access.callers import CallerResolver
from outlast.api.audit.origin import Origin, set_origin
from outlast.api.batches.client import BatchClient, RowSource, StoredRows, batch_id_of
from outlast.api.batches.sources import inline_rows
from outlast.api.errors import ApiError, BatchNotFound, TaskNotFound, TemporalUnavailable, TooManyRequests, tool_error
from outlast.api.saved_calls import SavedCallClient, read_kept
from outlast.api.schedules.client import ScheduleClient
from outlast.api.schedules.specification import LEAST_AHEAD
from outlast.api.schedules.stored_calls import DueCalls
from outlast.api.settings import ApiSettings
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.starter import task_id_of
from outlast.contracts.batches import BatchRequest, BatchSettings
from outlast.contracts.schedules import ScheduledCall
from outlast.contracts.tasks import ConnectedTaskRequest
from outlast.worker.connection import connect, worker_identity
from outlast.worker.telemetry import build_runtime
from outlast.workflows.contracts.queues import SCHEDULES_TASK_QUEUE

log = logging.getLogger("outlast.api")
_UNAVAILABLE = 503
_LIMIT_PATIENCE = timedelta(minutes=10)
"""How long a firing waits for room within its caller's limits."""
_AT_ONCE = 8
"""Firings that one process starts at a time; the others wait in the queue, also for other processes."""
_PAUSE_SECONDS = 1.0


class CallerFirings:
    """See `outlast.activities.schedules.activities.FiringStarter`."""

    def __init__(
        self,
        callers: CallerResolver,
        due: DueCalls,
        saved_calls: SavedCallClient,
        tasks: TaskClient,
        batches: BatchClient,
        rows: StoredRows,
        schedules: ScheduleClient,
    ) -> None:
        """Start with `tasks`, `batches` and `rows`, what `due` and `saved_calls` open. `schedules` renews due times."""
        self._callers = callers
        self._due = due
        self._saved_calls = saved_calls
        self._tasks = tasks
        self._batches = batches
        self._rows = rows
        self._schedules = schedules

    async def start(self, request: StartFiringInput) -> FiringStart:
        """Have it started, once for the firing. Raises `ToolFailure` for what may be gone when it is tried again."""
        set_origin(Origin("schedule"))
        kind: StartedKind = "batch" if request.due.batch is not None else "task"
        tool = request.tool
        try:
            found = await self._found(request.caller, kind, request.firing_id)
            if found is not None:
                return FiringStart(started=found)
            if datetime.now(UTC) > request.not_after:
                return FiringStart(error=_too_late(request, tool), is_late=True)
            caller = await self._callers.standing(request.caller)
            due = self._due.opened(request.caller, request.due)
            started = await self._start(caller, due, request)
            await self._renew_times(request)
            return FiringStart(started=started)
        except SealError as error:
            return FiringStart(error=ErrorEnvelope.permanent(ErrorCategory.AUTHENTICATION, tool, _unsealed(error)))
        except ApiError as error:
            envelope = tool_error(error, tool)
            if _may_pass(error, request):
                raise ToolFailure(envelope.model_copy(update={"retryable": True})) from error
            return FiringStart(error=envelope)

    async def _found(self, caller: Caller, kind: StartedKind, firing_id: str) -> Started | None:
        """What an earlier attempt has started, whatever has changed since."""
        try:
            if kind == "batch":
                batch = await self._batches.describe(caller, batch_id_of(caller, firing_id))
                return Started(kind=kind, id=batch.id)
            task = await self._tasks.describe(caller, task_id_of(caller, "", firing_id))
            return Started(kind=kind, id=task.id)
        except (TaskNotFound, BatchNotFound):
            return None

    async def _renew_times(self, request: StartFiringInput) -> None:
        """Look further ahead for changes of the clock, every year and a half. The next firing repeats a failed try."""
        if request.times_until is not None and request.times_until > datetime.now(UTC) + LEAST_AHEAD:
            return
        try:
            await self._schedules.renew_times(request.caller, request.schedule_id)
        except ApiError as error:
            log.warning("The due times of schedule %s could not be renewed: %s", request.schedule_id, error)

    async def _start(self, caller: Caller, due: Due, request: StartFiringInput) -> Started:
        if due.batch is not None:
            return await self._start_batch(caller, read_kept(BatchRequest, due.batch, request.tool), request)
        if due.saved is not None:
            call = await self._saved_calls.opened(caller, due.saved, due.arguments)
        else:
            call = read_kept(ScheduledCall, due.call, request.tool)
        options = call.options.model_copy(update={"budget": _within(call, request.limit_usd)})
        asked = ConnectedTaskRequest(
            tool=call.tool,
            arguments=call.arguments,
            mode=call.mode,
            options=options,
            tool_mask=call.tool_mask,
            schedule_id=request.schedule_id,
        )
        task = await self._tasks.start(caller, asked, idempotency_key=request.firing_id)
        return Started(kind="task", id=task.id)

    async def _start_batch(self, caller: Caller, asked: BatchRequest, request: StartFiringInput) -> Started:
        settings = BatchSettings.model_validate(asked.model_dump(exclude={"items", "rows"}))
        budget = _least(settings.budget_usd, request.limit_usd)
        settings = settings.model_copy(update={"budget_usd": budget})
        key, schedule = request.firing_id, request.schedule_id
        if asked.items is not None:
            items = asked.items
            source = RowSource(lambda: inline_rows(items), count=len(items))
            batch = await self._batches.start(caller, settings, source, idempotency_key=key, schedule_id=schedule)
        else:
            assert asked.rows is not None, "a batch has items or rows"
            batch = await self._rows.start(caller, settings, asked.rows, idempotency_key=key, schedule_id=schedule)
        return Started(kind="batch", id=batch.id)


def _within(call: ScheduledCall, limit_usd: Decimal | None) -> Budget:
    budget = call.options.budget
    return budget.within(_least(budget.max_total_charge_usd, limit_usd))


def _least(own: Decimal | None, limit: Decimal | None) -> Decimal | None:
    given = [amount for amount in (own, limit) if amount is not None]
    return min(given, default=None)


def _may_pass(error: ApiError, request: StartFiringInput) -> bool:
    """Whether the firing is tried again: an outage passes, and so may a caller's limit, for a while."""
    if isinstance(error, TooManyRequests):
        return datetime.now(UTC) < request.began_at + _LIMIT_PATIENCE
    return error.status == _UNAVAILABLE or isinstance(error, TemporalUnavailable)


def _too_late(request: StartFiringInput, tool: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.TIMEOUT,
        tool,
        f"Nothing was started: it was due at {request.began_at:%Y-%m-%d %H:%M:%S} UTC, and could not be started until "
        f"{request.not_after:%Y-%m-%d %H:%M:%S} UTC (`catch_up_seconds`).",
    )


def _unsealed(error: SealError) -> str:
    return f"The secrets of the schedule cannot be opened: {error} Send what it starts again, with its secrets."


class FiringHost:
    """Takes firings while Temporal can be reached."""

    def __init__(self, settings: ApiSettings, firings: CallerFirings) -> None:
        """Connect as `settings` say, and start with `firings`."""
        self._settings = settings
        self._firings = firings

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Take firings within the block. At its end those under way are left to another process, or to a later one."""
        hosting = asyncio.create_task(self._host())
        try:
            yield
        finally:
            hosting.cancel()
            with suppress(asyncio.CancelledError):
                await hosting

    async def _host(self) -> None:
        """Host one worker after the other: one ends when Temporal refuses what it asks for."""
        said, runtime = False, build_runtime()
        while True:
            try:
                client = await connect(self._settings, runtime, identity=worker_identity())
                worker = Worker(
                    client,
                    task_queue=SCHEDULES_TASK_QUEUE,
                    activities=[FiringStartActivities(self._firings).start_firing],
                    max_concurrent_activities=_AT_ONCE,
                    max_concurrent_activity_task_polls=2,
                    graceful_shutdown_timeout=timedelta(0),
                )
                await worker.run()
            except (RuntimeError, RPCError) as error:
                if not said:
                    log.info("Firings of schedules wait until Temporal can be reached: %s", error)
                said = True
            await asyncio.sleep(_PAUSE_SECONDS)
