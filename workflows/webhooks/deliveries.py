"""The workflows of webhooks: one per delivery; one per caller for waiting deliveries, and one for subscriptions.

A waiting delivery costs neither a timer nor an attempt in the queue: there is one timer, for the receiver that is next,
and one round of attempts at a time for each receiver.
"""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from outlast.activities.webhooks import contracts as webhooks
from outlast.activities.webhooks.waiting import QueueState
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE
from outlast.workflows.metrics import count_delivery

with workflow.unsafe.imports_passed_through():
    from outlast.activities.webhooks import activities


@workflow.defn(name=webhooks.DELIVERY_WORKFLOW)
class WebhookDeliveryWorkflow:
    """Its id is the delivery's id. It fails when the event was not delivered: that is the list of the undelivered.

    The event is attempted once. If that fails, or its receiver is failing already, the delivery waits in the queue of
    its caller, which attempts it from then on and signals how it ended.
    """

    def __init__(self) -> None:
        """Begin with an attempt."""
        self._settled: webhooks.Settled | None = None

    @workflow.signal(name=webhooks.SETTLE_SIGNAL)
    def settle(self, settled: webhooks.Settled) -> None:
        """End, as the queue says."""
        self._settled = self._settled or settled

    @workflow.signal(name=webhooks.ATTEMPTED_SIGNAL)
    def note_attempt(self, wait: webhooks.DeliveryWait) -> None:
        """Record an attempt of the queue that failed."""
        workflow.upsert_memo({webhooks.DELIVERY_WAIT_MEMO: wait})

    @workflow.run
    async def run(self, request: webhooks.DeliveryInput) -> webhooks.Delivered:
        """Deliver the event, for as long as it takes."""
        if workflow.patched("webhook-queue"):
            return await self._ended(request, await self._attempt_or_wait(request))
        try:
            delivered = await workflow.execute_activity_method(
                activities.WebhookActivities.deliver_webhook,
                request,
                task_queue=RUNS_TASK_QUEUE,
                start_to_close_timeout=activities.DELIVERY_ATTEMPT_TIMEOUT,
                schedule_to_close_timeout=activities.DELIVERY_TIMEOUT,
                heartbeat_timeout=activities.DELIVERY_HEARTBEAT_TIMEOUT,
                retry_policy=activities.DELIVERY_RETRY_POLICY,
                summary=f"{request.event.type.value} {request.event.subject or ''}".rstrip(),
            )
        except ActivityError as error:
            await self._give_up(request, _undelivered(error))
            raise ApplicationError(_reason(error), type=webhooks.UNDELIVERED, non_retryable=True) from None
        count_delivery(request.event.type.value, delivered.outcome)
        if delivered.outcome == "dropped":
            workflow.upsert_memo(
                {webhooks.DELIVERY_END_MEMO: webhooks.DeliveryEnd(outcome="dropped", message=_REMOVED)}
            )
        return delivered

    async def _attempt_or_wait(self, request: webhooks.DeliveryInput) -> webhooks.Settled:
        """Attempt the event, and wait for the queue if it was added there. A queue that is lost is not waited for."""
        while self._settled is None:
            try:
                attempted = await self._attempt(request)
            except ActivityError as error:
                return self._settled or _undelivered(error)
            if attempted.outcome != "queued":
                return webhooks.Settled(outcome=attempted.outcome, status=attempted.status, attempts=attempted.attempts)
            if attempted.receiver is not None and self._settled is None:
                self.note_attempt(
                    webhooks.DeliveryWait(
                        receiver=attempted.receiver, attempts=attempted.attempts, message=attempted.message
                    )
                )
            patience = timedelta(seconds=attempted.attempt_again_seconds)
            try:
                await workflow.wait_condition(lambda: self._settled is not None, timeout=patience)
            except TimeoutError:
                workflow.logger.warning("The queue of %s did not end this delivery.", request.caller_id)
        return self._settled

    async def _attempt(self, request: webhooks.DeliveryInput) -> webhooks.Attempted:
        return await workflow.execute_activity_method(
            activities.WebhookActivities.attempt_webhook,
            webhooks.AttemptInput(delivery=request, since=workflow.info().start_time),
            task_queue=RUNS_TASK_QUEUE,
            start_to_close_timeout=activities.DELIVERY_ATTEMPT_TIMEOUT,
            heartbeat_timeout=activities.DELIVERY_HEARTBEAT_TIMEOUT,
            retry_policy=activities.DELIVERY_RETRY_POLICY,
            summary=f"{request.event.type.value} {request.event.subject or ''}".rstrip(),
        )

    async def _ended(self, request: webhooks.DeliveryInput, settled: webhooks.Settled) -> webhooks.Delivered:
        """Record how the delivery ended. Raises `WebhookUndelivered`."""
        if settled.outcome == "undelivered":
            await self._give_up(request, settled)
            raise ApplicationError(settled.message or _NO_TIME, type=webhooks.UNDELIVERED, non_retryable=True)
        count_delivery(request.event.type.value, settled.outcome)
        if settled.outcome == "dropped":
            workflow.upsert_memo(
                {webhooks.DELIVERY_END_MEMO: webhooks.DeliveryEnd(outcome="dropped", message=_REMOVED)}
            )
        return webhooks.Delivered(outcome=settled.outcome, status=settled.status, attempts=settled.attempts)

    async def _give_up(self, request: webhooks.DeliveryInput, settled: webhooks.Settled) -> None:
        """Record why, and switch off a subscription whose receiver wants no more."""
        message = settled.message or _NO_TIME
        workflow.upsert_memo({webhooks.DELIVERY_END_MEMO: webhooks.DeliveryEnd(outcome="undelivered", message=message)})
        count_delivery(request.event.type.value, "undelivered")
        if not settled.is_gone or request.listener.is_own:
            return
        subscriptions = workflow.get_external_workflow_handle(webhooks.subscriptions_id(request.caller_id))
        try:
            await subscriptions.signal(
                webhooks.DISABLE_SIGNAL, webhooks.DisableInput(webhook_id=request.listener.id, reason=_GONE_WORDS)
            )
        except ApplicationError as failed:
            workflow.logger.warning("The subscriptions of %s did not take a signal: %s", request.caller_id, failed)


_REMOVED = "The webhook was removed."
_NO_TIME = "Its time was over."
_GONE_WORDS = "Its receiver answered 410: it wants no more events."


def _undelivered(error: ActivityError) -> webhooks.Settled:
    is_gone = isinstance(error.cause, ApplicationError) and error.cause.type == webhooks.GONE
    return webhooks.Settled(outcome="undelivered", message=_reason(error), is_gone=is_gone)


def _reason(error: ActivityError) -> str:
    if isinstance(error.cause, ApplicationError):
        return error.cause.message
    return _NO_TIME


_MOST_ROUNDS = 10
"""Receivers of one caller that are attempted at the same time."""
_AT_ONCE = timedelta(milliseconds=1)
_STALE_SHARE = 20
"""The memo's counts are renewed after a change by one in so many."""


@workflow.defn(name=webhooks.QUEUE_WORKFLOW)
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
        self._published = webhooks.QueueSummary()

    @workflow.signal(name=webhooks.ENQUEUE_SIGNAL)
    def enqueue(self, together: webhooks.EnqueuedTogether) -> None:
        """Add deliveries."""
        news = [self._add(entry) for entry in together.entries]
        self._publish(is_new=any(news))

    def _add(self, request: webhooks.EnqueueInput) -> bool:
        """Add a delivery; whether that may change what the memo says of its receiver, beside the number."""
        self._advance(request.now)
        before = self._next_due_of(request.receiver)
        receiver = self._state.add(request, workflow.random().random())
        due = self._next_due_of(request.receiver)
        is_sooner = due is not None and (before is None or due < before or due <= self._now)
        self._is_due = self._is_due or (is_sooner and len(self._rounds) < _MOST_ROUNDS)
        return request.failure is not None or len(receiver.waiting) == 1

    @workflow.signal(name=webhooks.RECHECK_SIGNAL)
    def recheck(self, request: webhooks.RecheckInput) -> None:
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
                workflow.continue_as_new(state, memo={webhooks.QUEUE_MEMO: self._published})
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

    async def _round(self, name: str, wanted: webhooks.RoundInput) -> None:
        try:
            result = await workflow.execute_activity_method(
                activities.WebhookActivities.deliver_waiting,
                wanted,
                task_queue=RUNS_TASK_QUEUE,
                start_to_close_timeout=activities.ROUND_TIMEOUT,
                heartbeat_timeout=activities.ROUND_HEARTBEAT_TIMEOUT,
                retry_policy=activities.ROUND_RETRY_POLICY,
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
        if not changed and (not is_new or len(self._state.receivers) > webhooks.MAX_SUMMARISED_RECEIVERS):
            return
        summary = self._state.summary()
        if summary != self._published:
            self._published = summary
            workflow.upsert_memo({webhooks.QUEUE_MEMO: summary})


def _failed(wanted: webhooks.RoundInput, now: datetime) -> webhooks.RoundResult:
    """A round that could not run: its first delivery counts as attempted."""
    failure = webhooks.Failure(message="The attempt could not be made.")
    attempts = tuple(
        webhooks.RoundAttempt(delivery_id=one.delivery_id, outcome="failed", failure=failure)
        for one in wanted.attempts[:1]
    )
    return webhooks.RoundResult(attempts=attempts, now=now)


@workflow.defn(name=webhooks.SUBSCRIPTIONS_WORKFLOW)
class WebhookSubscriptionsWorkflow:
    """Never ends; it continues as new. One per caller."""

    @workflow.init
    def __init__(self, state: webhooks.SubscriptionsState) -> None:
        """Continue from `state`."""
        self._state = state

    @workflow.run
    async def run(self, _state: webhooks.SubscriptionsState) -> None:
        """Keep the subscriptions."""
        await workflow.wait_condition(workflow.info().is_continue_as_new_suggested)
        await workflow.wait_condition(workflow.all_handlers_finished)
        # Without it, the next run's memo would be that with which this one began.
        workflow.continue_as_new(self._state, memo={webhooks.SUBSCRIPTIONS_MEMO: self._state})

    @workflow.update(name=webhooks.CREATE_UPDATE)
    def create_webhook(self, request: webhooks.CreateInput) -> webhooks.SubscriptionAnswer:
        """Add a subscription, unless it is there or the caller has as many as it may."""
        there = self._state.get(request.subscription.id)
        if there is not None:
            return webhooks.SubscriptionAnswer(subscription=there)
        if len(self._state.subscriptions) >= request.most:
            return webhooks.SubscriptionAnswer(refusal="too_many")
        self._now_has((*self._state.subscriptions, request.subscription))
        return webhooks.SubscriptionAnswer(subscription=request.subscription)

    @workflow.update(name=webhooks.EDIT_UPDATE)
    def edit_webhook(self, request: webhooks.EditInput) -> webhooks.SubscriptionAnswer:
        """Change what `request` says. Switched on again, a subscription forgets why it was off."""
        there = self._state.get(request.webhook_id)
        if there is None:
            return webhooks.SubscriptionAnswer(refusal="not_found")
        changes: dict[str, object] = request.model_dump(include={"name", "batch_items", "enabled"}, exclude_none=True)
        if request.events is not None:
            changes["events"] = request.events
        if request.url is not None:
            changes["endpoint"] = there.endpoint.model_copy(update={"url": request.url})
        if request.enabled:
            changes["disabled_reason"] = None
        return self._changed(there, changes)

    @workflow.update(name=webhooks.ROTATE_UPDATE)
    def rotate_secret(self, request: webhooks.RotateInput) -> webhooks.SubscriptionAnswer:
        """Sign with a new secret; for a while with the one before as well."""
        there = self._state.get(request.webhook_id)
        if there is None:
            return webhooks.SubscriptionAnswer(refusal="not_found")
        endpoint = there.endpoint.rotated(request.secret, old_until=request.old_until)
        if endpoint.url == request.read_url:
            endpoint = endpoint.model_copy(update={"url": request.url})
        return self._changed(there, {"endpoint": endpoint})

    @workflow.update(name=webhooks.REMOVE_UPDATE)
    def remove_webhook(self, request: webhooks.RemoveInput) -> webhooks.SubscriptionAnswer:
        """Remove a subscription."""
        there = self._state.get(request.webhook_id)
        if there is None:
            return webhooks.SubscriptionAnswer(refusal="not_found")
        self._now_has(tuple(one for one in self._state.subscriptions if one.id != there.id))
        return webhooks.SubscriptionAnswer(subscription=there)

    @workflow.signal(name=webhooks.DISABLE_SIGNAL)
    def disable_webhook(self, request: webhooks.DisableInput) -> None:
        """Switch a subscription off, and say why."""
        there = self._state.get(request.webhook_id)
        if there is not None and there.enabled:
            self._changed(there, {"enabled": False, "disabled_reason": request.reason})

    def _changed(self, there: webhooks.WebhookSubscription, changes: dict[str, object]) -> webhooks.SubscriptionAnswer:
        changed = there.model_copy(update={**changes, "updated_at": workflow.now()})
        self._now_has(tuple(changed if one.id == there.id else one for one in self._state.subscriptions))
        return webhooks.SubscriptionAnswer(subscription=changed)

    def _now_has(self, subscriptions: tuple[webhooks.WebhookSubscription, ...]) -> None:
        self._state = self._state.model_copy(update={"subscriptions": subscriptions})
        workflow.upsert_memo({webhooks.SUBSCRIPTIONS_MEMO: self._state})
