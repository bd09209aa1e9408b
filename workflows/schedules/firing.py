"""ScheduleFiringWorkflow: what a Temporal Schedule starts whenever it is due.

It has the call or the batch started by a process that can judge it, an API, as the caller's request would be at that
moment. It stays open until that has ended, so that Temporal's overlap policy holds. It always completes: Temporal
hands its result to the next firing, and with it what all firings have cost.
"""

import asyncio
from datetime import timedelta
from decimal import Decimal

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from outlast.activities.schedules import activities

from outlast.activities.bounds import usd_flaw, usd_text
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.schedules.contracts import (
    FIRING_WORKFLOW,
    FiringEnd,
    FiringStart,
    PauseInput,
    Started,
    StartFiringInput,
)
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE, SCHEDULES_TASK_QUEUE, TOOLS_TASK_QUEUE
from outlast.workflows.handler_api.failures import envelope_of, is_deadline
from outlast.workflows.metrics import count_firing
from outlast.workflows.schedules.contracts import FiringInput, FiringOutcome, FiringProgress, FiringStatus


@workflow.defn(name=FIRING_WORKFLOW)
class ScheduleFiringWorkflow:
    """Its id is that of the Temporal Schedule and the time at which it was due."""

    @workflow.init
    def __init__(self, firing: FiringInput) -> None:
        """Continue with the cost of earlier firings."""
        self._input = firing
        self._spent_usd = _spent_before()
        self._cancelled = False
        self._waiting: workflow.ActivityHandle[FiringEnd] | None = None

    @workflow.run
    async def run(self, _input: FiringInput) -> FiringOutcome:
        """Start what is due and await it. When the firing is cancelled, so is what it has started."""
        work = asyncio.ensure_future(self._work())
        while True:
            try:
                outcome = await asyncio.shield(work)
                break
            except asyncio.CancelledError:
                self._cancelled = True
                if self._waiting is not None:
                    self._waiting.cancel()
        count_firing(outcome.status.value)
        return outcome

    async def _work(self) -> FiringOutcome:
        flaw = usd_flaw({"budget_usd": self._input.spending.budget_usd})
        if flaw is not None and workflow.patched("budget-bounds"):
            error = ErrorEnvelope.permanent(ErrorCategory.VALIDATION, self._input.tool, flaw)
            return await self._ended(FiringStatus.REFUSED, error=error)
        left = self._left_usd()
        if left is not None and left <= 0:
            error = ErrorEnvelope.permanent(
                ErrorCategory.PAYMENT, self._input.tool, used_up(self._input, self._spent_usd)
            )
            return await self._ended(FiringStatus.REFUSED, error=error)
        start = await self._start(left)
        if start.started is None:
            status = FiringStatus.MISSED if start.is_late else FiringStatus.REFUSED
            return await self._ended(status, error=start.error)
        self._tell(FiringProgress(status=FiringStatus.WORKING, started=start.started, spent_usd=self._spent_usd))
        end = await self._end_of(start.started)
        self._spent_usd += end.cost_usd
        return await self._ended(FiringStatus(end.status), start.started, end.cost_usd, end.error)

    def _left_usd(self) -> Decimal | None:
        budget = self._input.spending.budget_usd
        return None if budget is None else budget - self._spent_usd

    async def _start(self, limit_usd: Decimal | None) -> FiringStart:
        """Start it, uninterrupted: a cancellation needs to know what was started."""
        patience = timedelta(seconds=self._input.timing.catch_up_seconds)
        request = StartFiringInput(
            schedule_id=self._input.schedule_id,
            tool=self._input.tool,
            firing_id=workflow.info().workflow_id,
            caller=self._input.caller,
            due=self._input.due,
            limit_usd=limit_usd,
            began_at=workflow.info().start_time,
            not_after=workflow.info().start_time + patience,
            times_until=self._input.times_until,
        )
        try:
            return await workflow.execute_activity_method(
                activities.FiringStartActivities.start_firing,
                request,
                task_queue=SCHEDULES_TASK_QUEUE,
                start_to_close_timeout=activities.START_ATTEMPT_TIMEOUT,
                schedule_to_close_timeout=patience + activities.START_GRACE,
                heartbeat_timeout=activities.START_HEARTBEAT_TIMEOUT,
                retry_policy=activities.START_RETRY_POLICY,
                summary=f"start {self._input.tool}",
            )
        except ActivityError as error:
            return FiringStart(error=envelope_of(error, tool=self._input.tool), is_late=is_deadline(error))

    async def _end_of(self, started: Started) -> FiringEnd:
        while True:
            if self._cancelled:
                await self._cancel(started)
            self._waiting = self._wait_for(started)
            try:
                return await self._waiting
            except ActivityError as error:
                if not is_cancelled_exception(error) and not self._cancelled:
                    return FiringEnd(status="failed", error=envelope_of(error, tool=self._input.tool))
            finally:
                self._waiting = None

    def _wait_for(self, started: Started) -> workflow.ActivityHandle[FiringEnd]:
        return workflow.start_activity_method(
            activities.FiringActivities.await_firing,
            started,
            task_queue=RUNS_TASK_QUEUE,
            start_to_close_timeout=activities.AWAIT_TIMEOUT,
            heartbeat_timeout=activities.AWAIT_HEARTBEAT_TIMEOUT,
            retry_policy=activities.PATIENT_RETRY_POLICY,
            summary=f"await {started.kind}",
        )

    async def _cancel(self, started: Started) -> None:
        await workflow.execute_activity_method(
            activities.FiringActivities.cancel_firing,
            started,
            task_queue=TOOLS_TASK_QUEUE,
            start_to_close_timeout=activities.QUICK_ATTEMPT_TIMEOUT,
            retry_policy=activities.PATIENT_RETRY_POLICY,
            summary=f"cancel {started.kind}",
        )

    async def _ended(
        self,
        status: FiringStatus,
        started: Started | None = None,
        cost_usd: Decimal = Decimal(0),
        error: ErrorEnvelope | None = None,
    ) -> FiringOutcome:
        """The outcome, after pausing the schedule if it may not continue."""
        outcome = FiringOutcome(
            status=status, started=started, cost_usd=cost_usd, spent_usd=self._spent_usd, error=error
        )
        note = reason_to_pause(self._input, outcome)
        if note is not None:
            await workflow.execute_activity_method(
                activities.FiringActivities.pause_schedule,
                PauseInput(temporal_id=self._input.temporal_id, note=note),
                task_queue=TOOLS_TASK_QUEUE,
                start_to_close_timeout=activities.QUICK_ATTEMPT_TIMEOUT,
                retry_policy=activities.PATIENT_RETRY_POLICY,
                summary="pause the schedule",
            )
        # With the workflow's end, not before: who sees it may trigger the schedule again, which overlaps with nothing.
        self._tell(FiringProgress.model_validate(outcome.model_dump()))
        return outcome

    def _tell(self, progress: FiringProgress) -> None:
        """Write the outcome of the firing into the memo: its schedule shows it, also while no worker is alive."""
        workflow.upsert_memo({memo.FIRING: progress})
        started = f"the {progress.started.kind} `{progress.started.id}`" if progress.started is not None else "nothing"
        reason = f" {progress.error.message}" if progress.error is not None else ""
        workflow.set_current_details(f"Started {started}; {progress.status.value}.{reason}")


def _spent_before() -> Decimal:
    """Cost of the earlier firings, from the result of the last one."""
    if not workflow.has_last_completion_result():
        return Decimal(0)
    last = workflow.get_last_completion_result(FiringOutcome)
    return last.spent_usd if last is not None else Decimal(0)


_FAILED = frozenset({FiringStatus.FAILED, FiringStatus.REFUSED})
_MAX_MESSAGE_CHARS = 300


def used_up(order: FiringInput, spent_usd: Decimal) -> str:
    """Says that the schedule's budget is spent."""
    budget = usd_text(order.spending.budget_usd or Decimal(0))
    return (
        f"The schedule's budget of {budget} US dollars is used up: its firings have cost "
        f"{usd_text(spent_usd)}. Raise `budget_usd` and resume the schedule."
    )


def reason_to_pause(order: FiringInput, outcome: FiringOutcome) -> str | None:
    """Reason to pause the schedule after this firing; None if it may continue."""
    budget = order.spending.budget_usd
    if budget is not None and outcome.spent_usd >= budget:
        return used_up(order, outcome.spent_usd)
    error = outcome.error
    if outcome.status not in _FAILED or error is None or error.category not in order.spending.pause_on:
        return None
    if error.category is ErrorCategory.PAYMENT and error.retryable:
        return None  # Other runs have reserved what is left: it is free again before long.
    return f"Paused after a failure ({error.category.value}): {error.message[:_MAX_MESSAGE_CHARS]}"
