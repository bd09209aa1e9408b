"""BatchWorkflow: one tool over many items, in rounds.

A round is an activity that starts items, which are tasks, and awaits them. This workflow decides what the next round
does, and when the batch is over. Its history has a few events for each round, whatever the number of items.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from temporalio import workflow
from temporalio.exceptions import ActivityError, CancelledError, RetryState, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from outlast.activities.batches.activities import (
        RESULTS_ATTEMPT_TIMEOUT,
        RESULTS_HEARTBEAT_TIMEOUT,
        ROUND_ATTEMPT_TIMEOUT,
        ROUND_HEARTBEAT_TIMEOUT,
        ROUND_RETRY_POLICY,
        BatchActivities,
    )

from outlast.activities.batches import contracts as batches
from outlast.activities.bounds import MAX_SECONDS, usd_flaw, usd_text
from outlast.activities.contracts import JsonObject
from outlast.activities.webhooks.contracts import WebhookEventType
from outlast.workflows.batches.contracts import (
    BATCH_STOPPED,
    WANTED_STOPS,
    BatchInput,
    BatchOutcome,
    BatchProgress,
    BatchStatus,
    BatchSummary,
)
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.failed_tasks import with_outcome
from outlast.workflows.contracts.queues import OUTPUTS_TASK_QUEUE, RUNS_TASK_QUEUE
from outlast.workflows.metrics import count_batch
from outlast.workflows.webhooks.announcing import announce


@workflow.defn(name=batches.BATCH_WORKFLOW)
class BatchWorkflow:
    """Its id is the batch's id. It completes with the results so far, also when it is cancelled or stops."""

    @workflow.init
    def __init__(self, batch_input: BatchInput) -> None:
        """Continue from the state of `batch_input`."""
        self._input = batch_input
        self._state = batch_input.state
        self._cancelled = batch_input.cancelled
        self._began = batch_input.began or workflow.now()
        self._at_work: workflow.ActivityHandle[batches.BatchState] | None = None
        self._lost_horizon: int | None = None
        if batch_input.lost_horizon is not None and workflow.patched("batch-restarted"):
            self._lost_horizon = batch_input.lost_horizon
        self._told: BatchProgress | None = None

    @workflow.run
    async def run(self, _input: BatchInput) -> BatchOutcome:
        """Run round after round. Cancellation cancels running items, and awaits them."""
        work, is_asked = asyncio.ensure_future(self._work()), False
        while True:
            try:
                outcome = await asyncio.shield(work)
                break
            except asyncio.CancelledError:
                self._cancelled = is_asked = True
                if self._at_work is not None:
                    self._at_work.cancel()
        if outcome is None:
            changes = {
                "state": self._state,
                "leg": None,
                "began": self._began,
                "cancelled": self._cancelled,
                "lost_horizon": None,
            }
            # Without it, the next run's memo would be that with which this one began.
            kept: dict[str, object] = {memo.BATCH_PROGRESS: BatchProgress.of(self._state)}
            if memo.BATCH in workflow.memo():
                kept[memo.BATCH] = workflow.memo_value(memo.BATCH, type_hint=BatchSummary)
            workflow.continue_as_new(self._input.model_copy(update=changes), memo=kept)
        is_wanted = outcome.status is BatchStatus.COMPLETED or outcome.state.stop in WANTED_STOPS
        if is_wanted or not workflow.patched("stopped-batch-fails-workflow"):
            return outcome
        if outcome.status is BatchStatus.CANCELLED and is_asked:
            workflow.upsert_memo({memo.BATCH_OUTCOME: outcome})
            raise CancelledError("The batch was cancelled; none of its items is still running.")
        raise with_outcome(f"Stopped: {outcome.state.stop_words}.", outcome, kind=BATCH_STOPPED)

    async def _work(self) -> BatchOutcome | None:
        """The outcome; None to continue as new."""
        try:
            flaw = usd_flaw({"budget_usd": self._input.options.budget_usd})
            if flaw is not None and workflow.patched("budget-bounds"):
                self._stop(batches.StopReason.DEFECT, f"it could not continue: {flaw}")
                return await self._finished()
            if self._input.leg is not None and not await self._prepare():
                return await self._finished()
            while (step := self._next_step()) is not None:
                if workflow.info().is_continue_as_new_suggested():
                    return None
                await self._round(step)
                if self._tell() and self._input.listeners:
                    await self._announce_progress()
            await self._close()
        except ActivityError as error:
            self._stop(batches.StopReason.DEFECT, f"it could not continue: {error.cause}")
        return await self._finished()

    def _next_step(self) -> batches.Step | None:
        if self._cancelled and self._state.stop is None:
            self._stop(batches.StopReason.CANCELLED, "it was cancelled")
        if self._lost_horizon is not None:
            # A cancelled round, or the last one of a run that was stuck.
            is_wanted = not self._cancelled and self._input.options.stop.under_way == "finish"
            return "drain" if is_wanted else "abort"
        if stopped_without_money(self._input, self._state):
            self._stop(batches.StopReason.MONEY, "the remaining budget is too small for another item")
        return next_step(self._input.options, self._state)

    def _stop(self, reason: batches.StopReason, words: str) -> None:
        self._state = self._state.model_copy(update={"stop": reason, "stop_words": words})

    async def _round(self, step: batches.Step) -> None:
        """Run one round. The next round finds items that a cancelled round started and did not report."""
        lost, self._lost_horizon = self._lost_horizon, None
        horizon = lost or min(self._state.cursor + batches.ROUND_ITEMS, self._state.plan_end)
        self._at_work = workflow.start_activity_method(
            BatchActivities.carry_on_batch,
            self._request(step, horizon, looks_back=lost is not None),
            task_queue=RUNS_TASK_QUEUE,
            start_to_close_timeout=ROUND_ATTEMPT_TIMEOUT,
            heartbeat_timeout=ROUND_HEARTBEAT_TIMEOUT,
            retry_policy=ROUND_RETRY_POLICY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"{ROUND_NAMES[step]} from {self._state.cursor} of {self._state.plan_end}",
        )
        try:
            self._state = await self._at_work
        except ActivityError as error:
            if not _is_cancelled(error):
                raise
            self._lost_horizon = horizon
        finally:
            self._at_work = None

    def _request(self, step: batches.Step, horizon: int, *, looks_back: bool) -> batches.RoundInput:
        given, seconds = self._input, self._input.options.stop.seconds
        return batches.RoundInput(
            place=given.place,
            options=given.options,
            state=self._state,
            step=step,
            horizon=horizon,
            item_limit_usd=batches.item_limit(given.options, self._state, own_usd=given.place.own_limit_usd),
            until=self._began + timedelta(seconds=min(seconds, MAX_SECONDS)) if seconds is not None else None,
            looks_back=looks_back,
        )

    async def _prepare(self) -> bool:
        """List the items to run again. Returns False if the batch is cancelled at the same time."""
        leg = self._input.leg
        assert leg is not None
        request = batches.LegInput(place=self._input.place, state=self._state, kind=leg.kind, categories=leg.categories)
        self._at_work = workflow.start_activity_method(
            BatchActivities.prepare_batch_leg,
            request,
            task_queue=OUTPUTS_TASK_QUEUE,
            start_to_close_timeout=RESULTS_ATTEMPT_TIMEOUT,
            heartbeat_timeout=RESULTS_HEARTBEAT_TIMEOUT,
            retry_policy=ROUND_RETRY_POLICY,
            summary=leg.kind,
        )
        try:
            self._state = await self._at_work
        except ActivityError as error:
            if not _is_cancelled(error):
                raise
            self._stop(batches.StopReason.CANCELLED, "it was cancelled")
            return False
        finally:
            self._at_work = None
        return True

    async def _close(self) -> None:
        await workflow.execute_activity_method(
            BatchActivities.close_batch,
            batches.CloseInput(place=self._input.place, state=self._state),
            task_queue=OUTPUTS_TASK_QUEUE,
            start_to_close_timeout=RESULTS_ATTEMPT_TIMEOUT,
            heartbeat_timeout=RESULTS_HEARTBEAT_TIMEOUT,
            retry_policy=ROUND_RETRY_POLICY,
            summary="describe the results",
        )

    def _tell(self) -> bool:
        """Update the progress in the memo, which lists show. Returns whether there was any news."""
        progress = BatchProgress.of(self._state)
        if progress == self._told:
            return False
        workflow.upsert_memo({memo.BATCH_PROGRESS: progress})
        workflow.set_current_details(self._details(progress))
        self._told = progress
        return True

    def _details(self, progress: BatchProgress) -> str:
        """The progress for operators, in one line."""
        counts, budget = progress.counts, self._input.options.budget_usd
        failed = f", {counts.failed} failed" if counts.failed else ""
        of_budget = f" of {usd_text(budget)}" if budget is not None else ""
        words = (
            f"{counts.ended} of {self._input.place.items.count} items have ended{failed}; "
            f"cost {usd_text(progress.cost_usd)}{of_budget} US dollars."
        )
        return words if progress.stop_words is None else f"{words} Stopped: {progress.stop_words}."

    async def _finished(self) -> BatchOutcome:
        """Announce the outcome to subscribed webhooks, and return it."""
        outcome = self._ended()
        if self._input.listeners:
            await announce_batch(self._input, self._state, outcome.status.value, has_ended=True)
        return outcome

    async def _announce_progress(self) -> None:
        if next_step(self._input.options, self._state) is not None:
            await announce_batch(self._input, self._state, BatchStatus.WORKING.value, has_ended=False)

    def _ended(self) -> BatchOutcome:
        status = status_of(self._input.place, self._state)
        if status is BatchStatus.STOPPED and self._state.stop is None and self._state.stop_before is not None:
            self._stop(self._state.stop_before, self._state.stop_before_words or "")
        self._tell()
        count_batch(status.value, self._state.stop)
        return BatchOutcome(status=status, state=self._state)


def _is_cancelled(error: ActivityError) -> bool:
    """Return True if a cancellation ended it: an attempt that fails or dies after one is not repeated."""
    return is_cancelled_exception(error) or error.retry_state is RetryState.CANCEL_REQUESTED


ROUND_NAMES: Mapping[batches.Step, str] = MappingProxyType(
    {"run": "items", "drain": "the last items", "abort": "cancel items"}
)


def next_step(options: batches.BatchOptions, state: batches.BatchState) -> batches.Step | None:
    """Purpose of the next round; None if nothing is left to do."""
    if state.stop is None:
        return "run" if state.has_more or state.under_way else None
    if not state.under_way:
        return None
    cancels = state.stop is batches.StopReason.CANCELLED or options.stop.under_way == "cancel"
    return "abort" if cancels else "drain"


def stopped_without_money(batch: BatchInput, state: batches.BatchState) -> bool:
    """Return True if nothing is running and the budget is too small for another item."""
    options, place = batch.options, batch.place
    if options.budget_usd is None or not place.is_paid or state.stop is not None or state.under_way:
        return False
    return state.has_more and batches.item_limit(options, state, own_usd=place.own_limit_usd) is None


def status_of(place: batches.BatchPlace, state: batches.BatchState) -> BatchStatus:
    """The outcome of the batch."""
    if state.stop is batches.StopReason.CANCELLED:
        return BatchStatus.CANCELLED
    return BatchStatus.COMPLETED if state.counts.ended == place.items.count else BatchStatus.STOPPED


async def announce_batch(batch: BatchInput, state: batches.BatchState, status: str, *, has_ended: bool) -> None:
    """Announce the state of a batch: after a round, or at its end."""
    await announce(
        batch.listeners,
        WebhookEventType.BATCH_COMPLETED if has_ended else WebhookEventType.BATCH_PROGRESS,
        batch_data(batch, state, status),
        caller_id=batch.place.caller_id,
        # Within one run, a retry or a resume, the number of ended items only grows.
        number=state.counts.ended,
        awaits_end=has_ended,
    )


def batch_data(batch: BatchInput, state: batches.BatchState, status: str) -> JsonObject:
    """The data of an event of a batch."""
    place, counts = batch.place, state.counts
    link = f"/v1/batches/{place.batch_id}"
    data: JsonObject = {
        "batch_id": place.batch_id,
        "tool": str(place.call.get("tool", "")),
        "status": status,
        "total": place.items.count,
        **counts.model_dump(),
        "under_way": len(state.under_way),
        "cost_usd": float(state.cost_usd),
        "links": {"batch": link, "results": f"{link}/results"},
    }
    if state.stop is not None:
        data |= {"stopped_by": state.stop.value, "message": (state.stop_words or "")[:500]}
    return data
