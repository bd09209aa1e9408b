"""`CallerFirings`: starts due calls and batches for their caller; `FiringHost`: polls the queue of firings."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from temporalio.service import RPCError
from temporalio.worker import Worker

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import SealError
from outlast.activities.schedules.activities import FiringStartActivities
from outlast.activities.schedules.contracts import Due, FiringStart, Started, StartedKind, StartFiringInput
from outlast.api.access.callers import CallerResolver
from outlast.api.audit.records import Origin, set_origin
from outlast.api.batches.client import BatchClient, StoredRows, batch_id_of
from outlast.api.errors import ApiError, BatchNotFound, TaskNotFound, TemporalUnavailable, TooManyRequests, tool_error
from outlast.api.saved_calls import DueCalls, SavedCallClient, read_kept
from outlast.api.schedules.client import ScheduleClient
from outlast.api.schedules.specification import LEAST_AHEAD
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
"""Longest wait of a firing for its caller's limits."""
_AT_ONCE = 8
"""Firings that one process starts concurrently; the others wait in the queue."""
_PAUSE_SECONDS = 1.0


@dataclass(eq=False)
class CallerFirings:
    """Starter of firings, see `outlast.activities.schedules.activities.FiringStarter`."""

    callers: CallerResolver
    due: DueCalls
    saved_calls: SavedCallClient
    tasks: TaskClient
    batches: BatchClient
    rows: StoredRows
    schedules: ScheduleClient

    async def start(self, request: StartFiringInput) -> FiringStart:
        """Start the call or batch, once for the firing. Raises `ToolFailure` for temporary errors."""
        set_origin(Origin("schedule"))
        kind: StartedKind = "batch" if request.due.batch is not None else "task"
        tool = request.tool
        try:
            found = await self._found(request.caller, kind, request.firing_id)
            if found is not None:
                return FiringStart(started=found)
            if datetime.now(UTC) > request.not_after:
                return FiringStart(error=_too_late(request, tool), is_late=True)
            caller = await self.callers.standing(request.caller)
            due = self.due.opened(request.caller, request.due)
            started = await self._start(caller, due, request)
            await self._renew_times(request)
            return FiringStart(started=started)
        except SealError as error:
            message = f"The secrets of the schedule cannot be decrypted: {error} Change it, with its secrets."
            return FiringStart(error=ErrorEnvelope.permanent(ErrorCategory.AUTHENTICATION, tool, message))
        except ApiError as error:
            envelope = tool_error(error, tool)
            if _is_temporary(error, request):
                raise ToolFailure(envelope.model_copy(update={"retryable": True})) from error
            return FiringStart(error=envelope)

    async def _found(self, caller: Caller, kind: StartedKind, firing_id: str) -> Started | None:
        """The task or batch that an earlier attempt has started."""
        try:
            if kind == "batch":
                found = await self.batches.describe(caller, batch_id_of(caller, firing_id))
            else:
                found = await self.tasks.describe(caller, task_id_of(caller, "", firing_id))
            return Started(kind=kind, id=found.id)
        except (TaskNotFound, BatchNotFound):
            return None

    async def _renew_times(self, request: StartFiringInput) -> None:
        """Renew the due times around clock changes, every year and a half. The next firing repeats a failed attempt."""
        if request.times_until is not None and request.times_until > datetime.now(UTC) + LEAST_AHEAD:
            return
        try:
            await self.schedules.renew_times(request.caller, request.schedule_id)
        except ApiError as error:
            log.warning("The due times of schedule %s could not be renewed: %s", request.schedule_id, error)

    async def _start(self, caller: Caller, due: Due, request: StartFiringInput) -> Started:
        if due.batch is not None:
            return await self._start_batch(caller, read_kept(BatchRequest, due.batch, request.tool), request)
        if due.saved is not None:
            call = await self.saved_calls.opened(caller, due.saved, due.arguments)
        else:
            call = read_kept(ScheduledCall, due.call, request.tool)
        budget = call.options.budget
        budget = budget.within(_least(budget.max_total_charge_usd, request.limit_usd))
        options = call.options.model_copy(update={"budget": budget})
        asked = ConnectedTaskRequest(
            tool=call.tool,
            arguments=call.arguments,
            mode=call.mode,
            options=options,
            tool_mask=call.tool_mask,
            schedule_id=request.schedule_id,
        )
        task = await self.tasks.start(caller, asked, idempotency_key=request.firing_id)
        return Started(kind="task", id=task.id)

    async def _start_batch(self, caller: Caller, asked: BatchRequest, request: StartFiringInput) -> Started:
        settings = BatchSettings.model_validate(asked.model_dump(exclude={"items", "rows"}))
        budget = _least(settings.budget_usd, request.limit_usd)
        settings = settings.model_copy(update={"budget_usd": budget})
        key, schedule_id = request.firing_id, request.schedule_id
        batch = await self.rows.start(
            caller, settings, asked.items, asked.rows, idempotency_key=key, schedule_id=schedule_id
        )
        return Started(kind="batch", id=batch.id)


def _least(own: Decimal | None, limit: Decimal | None) -> Decimal | None:
    return min((amount for amount in (own, limit) if amount is not None), default=None)


def _is_temporary(error: ApiError, request: StartFiringInput) -> bool:
    """Return whether to try the firing again: after an outage, and for some time after a caller's limit."""
    if isinstance(error, TooManyRequests):
        return datetime.now(UTC) < request.began_at + _LIMIT_PATIENCE
    return error.status == _UNAVAILABLE or isinstance(error, TemporalUnavailable)


def _too_late(request: StartFiringInput, tool: str) -> ErrorEnvelope:
    due, latest = f"{request.began_at:%Y-%m-%d %H:%M:%S} UTC", f"{request.not_after:%Y-%m-%d %H:%M:%S} UTC"
    message = f"Nothing was started: it was due at {due}, and could not be started until {latest} (`catch_up_seconds`)."
    return ErrorEnvelope.permanent(ErrorCategory.TIMEOUT, tool, message)


@dataclass(eq=False)
class FiringHost:
    """Hosts the worker for firings while Temporal can be reached."""

    settings: ApiSettings
    firings: CallerFirings

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Take firings within the block. At its end, unfinished ones are left to other processes."""
        hosting = asyncio.create_task(self._host())
        try:
            yield
        finally:
            hosting.cancel()
            with suppress(asyncio.CancelledError):
                await hosting

    async def _host(self) -> None:
        """Host one worker after the other: a worker ends when Temporal refuses its requests."""
        is_logged, runtime = False, build_runtime()
        while True:
            try:
                client = await connect(self.settings, runtime, identity=worker_identity())
                worker = Worker(
                    client,
                    task_queue=SCHEDULES_TASK_QUEUE,
                    activities=[FiringStartActivities(self.firings).start_firing],
                    max_concurrent_activities=_AT_ONCE,
                    max_concurrent_activity_task_polls=2,
                    graceful_shutdown_timeout=timedelta(0),
                )
                await worker.run()
            except (RuntimeError, RPCError) as error:
                if not is_logged:
                    log.info("Firings of schedules wait until Temporal can be reached: %s", error)
                is_logged = True
            await asyncio.sleep(_PAUSE_SECONDS)
