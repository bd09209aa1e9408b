"""WebhookQueueWorkflow: the deliveries of one caller that wait for their receivers. It ends when nothing waits.

A waiting delivery costs neither a timer nor an attempt here: there is one timer, for the receiver that is next, and
one round of attempts at a time for each receiver.
"""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from outlast.activities.webhooks.activities import (
        ROUND_HEARTBEAT_TIMEOUT,
        ROUND_RETRY_POLICY,
        ROUND_TIMEOUT,
        WebhookActivities,
    )

from outlast.activities.webhooks.contracts import (
    ENQUEUE_SIGNAL,
    MAX_SUMMARISED_RECEIVERS,
    QUEUE_MEMO,
    QUEUE_WORKFLOW,
    RECHECK_SIGNAL,
    EnqueuedTogether,
    EnqueueInput,
    Failure,
    QueueSummary,
    RecheckInput,
    RoundAttempt,
    RoundInput,
    RoundResult,
)
from outlast.activities.webhooks.waiting import QueueState
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE

_MOST_ROUNDS = 10
"""Receivers of one caller that are attempted at the same time."""
_AT_ONCE = timedelta(milliseconds=1)
_STALE_SHARE = 20
"""The memo's counts are renewed after a change by one in so many."""


@workflow.defn(name=QUEUE_WORKFLOW)
class WebhookQueueWorkflow:
    """One per caller. Signals and results carry the time: after a workflow task that timed out, `now()` may differ."""

    @workflow.init
    def __init__(self, state: QueueState) -> None:
        """Continue from `state`."""
        self._state = state
        self._clock = state.clock
        self._rounds: dict[str, asyncio.Task[None]] = {}
        self._rechecked: set[str] = set()
        """Receivers that a webhook was changed for during a round."""
        self._is_due = bool(state.receivers)
        self._published = QueueSummary()

    @workflow.signal(name=ENQUEUE_SIGNAL)
    def enqueue(self, together: EnqueuedTogether) -> None:
        """Add deliveries."""
        news = [self._add(entry) for entry in together.entries]
        self._publish(is_new=any(news))

    def _add(self, request: EnqueueInput) -> bool:
        """Add a delivery; whether that may change what the memo says of its receiver, beside the number."""
        self._advance(request.now)
        before = self._next_due_of(request.receiver)
        receiver = self._state.add(request, workflow.random().random())
        due = self._next_due_of(request.receiver)
        is_sooner = due is not None and (before is None or due < before or due <= self._now)
        self._is_due = self._is_due or (is_sooner and len(self._rounds) < _MOST_ROUNDS)
        return request.failure is not None or len(receiver.waiting) == 1

    @workflow.signal(name=RECHECK_SIGNAL)
    def recheck(self, request: RecheckInput) -> None:
        """Try a receiver at once; after a round that has begun before, since its attempts may be of no use."""
        self._advance(request.now)
        receiver = self._state.receivers.get(request.receiver)
        if receiver is not None:
            receiver.recheck(self._now)
            self._is_due = True
            if request.receiver in self._rounds:
                self._rechecked.add(request.receiver)

    @workflow.run
    async def run(self, _state: QueueState) -> None:
        """Attempt what is due, until nothing waits."""
        await workflow.wait_condition(lambda: bool(self._state.receivers))
        while self._state.receivers:
            if workflow.info().is_continue_as_new_suggested():
                await workflow.wait_condition(lambda: not self._rounds)
                if not self._state.receivers:
                    break  # a run that begins with nothing waits for the next event, which may never come
                self._publish(is_new=True)
                state = self._state.model_copy(update={"clock": self._clock})
                workflow.continue_as_new(state, memo={QUEUE_MEMO: self._published})
            await self._sleep(self._begin_rounds())

    @property
    def _now(self) -> datetime:
        return self._clock or workflow.now()

    def _advance(self, now: datetime) -> None:
        self._clock = now if self._clock is None else max(self._clock, now)

    def _begin_rounds(self) -> datetime | None:
        """Begin the rounds that are due, those of the receivers that have waited longest first; when the next one is.

        None while the maximum of rounds is running: the end of one begins the next.
        """
        self._is_due = False
        found = [(due, name) for name in self._state.receivers if (due := self._next_due_of(name)) is not None]
        dues = sorted(found)
        while dues and dues[0][0] <= self._now and len(self._rounds) < _MOST_ROUNDS:
            _, name = dues.pop(0)
            wanted = self._state.receivers[name].next_round(self._state.caller_id, name, self._now)
            if wanted is not None:
                self._rounds[name] = asyncio.ensure_future(self._round(name, wanted))
        return dues[0][0] if dues and len(self._rounds) < _MOST_ROUNDS else None

    def _next_due_of(self, name: str) -> datetime | None:
        receiver = self._state.receivers.get(name)
        return None if receiver is None or name in self._rounds else receiver.next_due(self._now)

    async def _sleep(self, until: datetime | None) -> None:
        """Wait until something is due: at that time, or because a signal or a result says so."""
        timeout = None if until is None else max(until - self._now, _AT_ONCE)
        try:
            await workflow.wait_condition(self._has_work, timeout=timeout, timeout_summary="next attempt")
        except TimeoutError:
            if until is not None:
                self._advance(until)

    def _has_work(self) -> bool:
        return self._is_due or not self._state.receivers or workflow.info().is_continue_as_new_suggested()

    async def _round(self, name: str, wanted: RoundInput) -> None:
        try:
            result = await workflow.execute_activity_method(
                WebhookActivities.deliver_waiting,
                wanted,
                task_queue=RUNS_TASK_QUEUE,
                start_to_close_timeout=ROUND_TIMEOUT,
                heartbeat_timeout=ROUND_HEARTBEAT_TIMEOUT,
                retry_policy=ROUND_RETRY_POLICY,
                summary=f"{len(wanted.attempts) or len(wanted.settles)} of {name}",
            )
        except ActivityError as error:
            workflow.logger.error("A round of deliveries failed: %s", error.cause)
            result = _failed(wanted, self._now)
        self._advance(result.now)
        receiver = self._state.receivers[name]
        receiver.take(wanted, result, workflow.random().random())
        if name in self._rechecked:
            self._rechecked.discard(name)
            if workflow.patched("webhook-recheck-after-round"):
                receiver.recheck(self._now)
        if receiver.is_empty:
            del self._state.receivers[name]
        del self._rounds[name]
        self._is_due = True
        self._publish(is_new=True)

    def _publish(self, *, is_new: bool) -> None:
        """Write the memo where it is no longer true. With many receivers, or many events, only now and then."""
        changed = abs(self._state.waiting - self._published.waiting) * _STALE_SHARE >= self._published.waiting
        if not changed and (not is_new or len(self._state.receivers) > MAX_SUMMARISED_RECEIVERS):
            return
        summary = self._state.summary()
        if summary != self._published:
            self._published = summary
            workflow.upsert_memo({QUEUE_MEMO: summary})


def _failed(wanted: RoundInput, now: datetime) -> RoundResult:
    """A round that could not run: its first delivery counts as attempted."""
    failure = Failure(message="The attempt could not be made.")
    attempts = tuple(
        RoundAttempt(delivery_id=one.delivery_id, outcome="failed", failure=failure) for one in wanted.attempts[:1]
    )
    return RoundResult(attempts=attempts, now=now)
