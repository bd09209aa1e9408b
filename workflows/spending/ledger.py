"""SpendLedgerWorkflow: what one caller has spent and reserved. Its updates are serial, so no race overspends."""

import asyncio
from datetime import timedelta
from decimal import Decimal

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.spending import (
        FIND_ATTEMPT_TIMEOUT,
        FIND_HEARTBEAT_TIMEOUT,
        KEEP_ATTEMPT_TIMEOUT,
        SpendingActivities,
    )

from outlast.activities.spending import contracts as spending
from outlast.workflows.contracts.queues import OUTPUTS_TASK_QUEUE
from outlast.workflows.metrics import (
    count_difference,
    count_near_caps,
    count_refusal,
    count_spend,
    count_unread_charges,
)
from outlast.workflows.spending.ledger_state import Book

_BY_HISTORY = "reserve-by-history"
KEEP_AT = 200
"""Records that go to the store together."""
_PATIENCE = timedelta(minutes=10)
"""Time that the store or the platform is tried. The ledger continues, and tries again later."""
_CORRECTED_WITHIN = timedelta(days=1)
"""Time that a run's final usage is queried while the platform does not answer."""
_AT_ONCE = timedelta(milliseconds=1)
"""A timer that is due already: without one, there would be no event that a replay meets again."""
_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(minutes=1)
)


@workflow.defn(name=spending.LEDGER_WORKFLOW)
class SpendLedgerWorkflow:
    """Never ends; it continues as new. One per caller."""

    @workflow.init
    def __init__(self, state: spending.LedgerState) -> None:
        """Continue from `state`."""
        self._check_after = timedelta(seconds=state.check_after_seconds)
        self._check_at = state.check_at
        self._caller = state.caller
        self._book = Book(state, workflow.now())
        self._look: asyncio.Task[None] | None = None
        self._looked_after: frozenset[str] = frozenset()
        self._corrected: frozenset[str] = frozenset()
        self._store_failed = False

    @workflow.run
    async def run(self, _state: spending.LedgerState) -> None:
        """Store records, and look after what is not final, until it continues as new."""
        while not workflow.info().is_continue_as_new_suggested():
            if self._begins_to_watch:
                self._watch()
            await workflow.wait_condition(self._is_due)
            if self._is_time_to_look:
                self._look, self._check_at, self._store_failed = None, None, False
                await self._look_after()
                await self._correct()
            elif self._is_full:
                await self._keep()
        await workflow.wait_condition(workflow.all_handlers_finished)
        carried = {"caller": self._caller, "check_at": self._check_at}
        workflow.continue_as_new(self._book.state().model_copy(update=carried))

    @workflow.update(name=spending.RESERVE_UPDATE)
    def reserve(self, request: spending.ReserveInput) -> spending.Reserved:
        """Hold an amount, or refuse it."""
        by_history = workflow.patched(_BY_HISTORY)
        answer = self._book.reserve(request, workflow.now(), by_history=by_history)
        if answer.refusal is not None:
            count_refusal(answer.refusal.cap)
        count_near_caps(self._book.near_caps(request))
        return answer

    @workflow.signal(name=spending.SETTLE_SIGNAL)
    def settle(self, settlements: spending.Settlements) -> None:
        """Book what entries have cost."""
        self._caller = settlements.caller or self._caller
        for settlement in settlements.entries:
            self._settle(settlement)

    @workflow.signal(name=spending.RELEASE_SIGNAL)
    def release(self, entry_id: str) -> None:
        """Give back what an entry holds."""
        self._book.release(entry_id)

    @workflow.signal(name=spending.CLOSE_SIGNAL)
    def close(self, closed: spending.ClosedEntry) -> None:
        """Book what a run has really cost that is resurrected: from now on another entry is booked for it."""
        self._correct_entry(closed.entry_id, closed.cost_usd)

    @workflow.query(name=spending.OVERVIEW_QUERY)
    def overview(self) -> spending.LedgerOverview:
        """Spending of the caller, and records that are not in the store yet."""
        return self._book.overview(workflow.now())

    @property
    def _begins_to_watch(self) -> bool:
        """A timer costs: there is one only while something is reserved, or an ended run may change."""
        return self._look is None and bool(self._book.open or self._book.booked)

    def _watch(self) -> None:
        """Look, when a timer is over, at what is there now. Records that are stored meanwhile do not put it off.

        No command depends on the time: after a workflow task that timed out, `workflow.now()` may be that of the one
        before, and another time in a replay.
        """
        now = workflow.now()
        if self._check_at is None:
            self._check_at = now + self._check_after
            self._looked_after, self._corrected = frozenset(self._book.open), frozenset(self._book.booked)
        else:  # Another run of this workflow has begun to watch.
            begun = self._check_at - self._check_after
            self._looked_after = frozenset(entry.spend.entry_id for entry in self._book.open_since(begun))
            self._corrected = frozenset(run.spend.entry_id for run in self._book.booked_since(begun))
        self._look = asyncio.ensure_future(workflow.sleep(max(self._check_at - now, _AT_ONCE)))

    @property
    def _is_time_to_look(self) -> bool:
        return self._look is not None and self._look.done()

    @property
    def _is_full(self) -> bool:
        return len(self._book.records) >= KEEP_AT and not self._store_failed

    def _is_due(self) -> bool:
        is_new = self._begins_to_watch or workflow.info().is_continue_as_new_suggested()
        return self._is_time_to_look or self._is_full or is_new

    def _settle(self, settlement: spending.Settlement) -> None:
        if self._book.settle(settlement, workflow.now()):
            count_spend(settlement)

    async def _keep(self) -> None:
        """Move the records to the store. When it does not answer, they stay here for now."""
        records = tuple(self._book.records)
        request = spending.KeepUsageInput(caller_id=self._book.caller_id, number=self._book.bundle, records=records)
        try:
            await workflow.execute_activity_method(
                SpendingActivities.keep_usage,
                request,
                task_queue=OUTPUTS_TASK_QUEUE,
                start_to_close_timeout=KEEP_ATTEMPT_TIMEOUT,
                schedule_to_close_timeout=_PATIENCE,
                retry_policy=_RETRY_POLICY,
                summary=f"store {len(records)} records",
            )
        except ActivityError as error:
            workflow.logger.error("Usage records could not be stored; they stay in the ledger: %s", error.cause)
            self._store_failed = True
            return
        self._book.forget(len(records))

    async def _look_after(self) -> None:
        """Settle the reservations of tasks that have ended without doing so."""
        entries = tuple(entry for entry_id, entry in self._book.open.items() if entry_id in self._looked_after)
        if not entries:
            return
        try:
            found = await workflow.execute_activity_method(
                SpendingActivities.find_charges,
                spending.FindChargesInput(entries=entries),
                start_to_close_timeout=FIND_ATTEMPT_TIMEOUT,
                heartbeat_timeout=FIND_HEARTBEAT_TIMEOUT,
                schedule_to_close_timeout=_PATIENCE,
                retry_policy=_RETRY_POLICY,
                summary=f"look after {len(entries)} reservations",
            )
        except ActivityError as error:
            workflow.logger.error("Reservations could not be looked after: %s", error.cause)
            return
        for settlement in found.settled:
            self._settle(settlement)
        for entry_id in found.released:
            self._book.release(entry_id)

    async def _correct(self) -> None:
        """Book what runs cost more or less than they had when they ended: the platform finalises usage later."""
        runs = tuple(run for entry_id, run in self._book.booked.items() if entry_id in self._corrected)
        if not runs or self._caller is None:
            return
        try:
            final = await workflow.execute_activity_method(
                SpendingActivities.read_charges,
                spending.ReadChargesInput(caller=self._caller, runs=runs),
                start_to_close_timeout=FIND_ATTEMPT_TIMEOUT,
                heartbeat_timeout=FIND_HEARTBEAT_TIMEOUT,
                schedule_to_close_timeout=_PATIENCE,
                retry_policy=_RETRY_POLICY,
                summary=f"read what {len(runs)} runs have cost",
            )
        except ActivityError as error:
            workflow.logger.error("The final usage of runs could not be read; they stay as booked: %s", error.cause)
            given_up = self._book.give_up(workflow.now() - _CORRECTED_WITHIN)
            if given_up:
                count_unread_charges(given_up)
            return
        for run in runs:
            entry_id = run.spend.entry_id
            self._correct_entry(entry_id, final.changed.get(entry_id, run.cost_usd))

    def _correct_entry(self, entry_id: str, cost_usd: Decimal) -> None:
        booked = self._book.correct(entry_id, cost_usd, workflow.now())
        if booked is not None:
            count_difference(booked.cost_usd)
            count_spend(booked)
