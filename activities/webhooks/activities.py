"""The activities that deliver events to webhooks: one event at first, and the waiting events of one receiver."""

import asyncio
import json
import random
import time
import traceback
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from weakref import WeakValueDictionary

from pydantic import SecretStr
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from outlast.activities.contracts import SealedSecret
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import SealError
from outlast.activities.heartbeat import activity_scope
from outlast.activities.secrets import SecretSealer
from outlast.activities.web.address_rules import WebAddress
from outlast.activities.webhooks import contracts as webhooks
from outlast.activities.webhooks.posting import Posted, PostOutcome, WebhookPoster, signed_headers, webhook_purpose
from outlast.activities.webhooks.queues import Subscriptions, WebhookQueues
from outlast.activities.webhooks.waiting import MAX_PAUSE, pause_after, too_many_waiting
from outlast.activities.workflow_requests import described

T = TypeVar("T")

DELIVERY_ATTEMPT_TIMEOUT = timedelta(minutes=5)
DELIVERY_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
DELIVERY_TIMEOUT = timedelta(days=31)
"""The worker gives up earlier, by its own setting."""
DELIVERY_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=10))
"""For the death of a worker. After an answer of the receiver, the activity itself sets the pause."""
ROUND_TIMEOUT = timedelta(minutes=10)
ROUND_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
ROUND_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))

_AT_ONCE_PER_CALLER = 20
"""Requests of one caller's events that a worker has open: a receiver that hangs keeps few connections."""
_AT_ONCE_PER_RECEIVER = 10
"""Those of them to one receiver."""
_WAITING_PER_CALLER = 200
_TURN_SECONDS = 2.0
"""The time that an event waits for one of these places before it is added to the queue."""
_LEAST_BUSY_PAUSE, _MOST_BUSY_PAUSE = timedelta(seconds=15), timedelta(minutes=10)
_END_SECONDS = 10.0
"""The time to wait for the end of an event's subject."""
_ROUND_SECONDS = 20.0
"""A round begins no further attempt after this time, so that its results are known."""
_LOADED_AT_ONCE = 10
_QUEUE_LOST_AFTER = timedelta(hours=1)
_SWITCHED_OFF = "The webhook is switched off."
_REMOVED = "The webhook was removed."


class WebhookActivities:
    """Delivers events."""

    def __init__(
        self,
        client: Client,
        subscriptions: Subscriptions,
        queues: WebhookQueues,
        sealer: SecretSealer,
        poster: WebhookPoster,
        *,
        first_pause: timedelta,
        give_up: timedelta,
    ) -> None:
        """Post with `poster`. After a failure wait, `first_pause` at first; `give_up` after that time."""
        self._client = client
        self._subscriptions = subscriptions
        self._queues = queues
        self._sealer = sealer
        self._poster = poster
        self._first_pause = first_pause
        self._give_up = give_up
        self._turns: WeakValueDictionary[str, _Turns] = WeakValueDictionary()
        self._receivers: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()

    @activity.defn
    async def attempt_webhook(self, request: webhooks.AttemptInput) -> webhooks.Attempted:
        """Post the event, signed. When its receiver fails, or other events wait for it, add the event to the queue. An
        event for a subscription that was removed is dropped. Fails with `WebhookGone` for an answer of 410, with
        `WebhookUndelivered` when the event will not be sent.
        """
        async with activity_scope():
            delivery = request.delivery
            endpoint = await self._endpoint(delivery)
            if endpoint is None:
                return webhooks.Attempted(outcome="dropped", attempts=activity.info().attempt)
            if delivery.awaits_end:
                await self._await_end(delivery, request.since)
            receiver = self._receiver_of(delivery, endpoint)
            queue = await self._queues.known(delivery.caller_id)
            known = queue.of(receiver)
            if known is not None and known.holds:
                return await self._enqueue(request, receiver, queue, is_behind=True)
            async with self._place(delivery.caller_id, receiver) as is_free:
                posted = await self._posted(delivery, endpoint) if is_free else None
            if posted is None:
                return await self._enqueue(request, receiver, queue)
            if posted.outcome is PostOutcome.DELIVERED:
                return webhooks.Attempted(outcome="delivered", status=posted.status, attempts=activity.info().attempt)
            if posted.is_final:
                kind = webhooks.GONE if posted.outcome is PostOutcome.GONE else webhooks.UNDELIVERED
                raise _ended(kind, posted.message)
            return await self._enqueue(request, receiver, queue, failure=_failure(posted))

    @activity.defn
    async def deliver_waiting(self, request: webhooks.RoundInput) -> webhooks.RoundResult:
        """Attempt the next waiting deliveries to a receiver, in their order, or end them."""
        async with activity_scope():
            if request.settled is not None:
                settled = request.settled
                for some in _grouped(request.settles, _LOADED_AT_ONCE):
                    await asyncio.gather(*(self._settle(one, settled) for one in some))
                return webhooks.RoundResult(now=datetime.now(UTC))
            return await self._round(request)

    @activity.defn
    async def deliver_webhook(self, request: webhooks.DeliveryInput) -> webhooks.Delivered:
        """Post the event of a delivery from before there were queues: the retries of this activity are its pauses. An
        event for a subscription that was removed is dropped. Fails with `WebhookGone` for an answer of 410, with
        `WebhookUndelivered` when the event will not be sent again.
        """
        async with activity_scope():
            attempts = activity.info().attempt
            endpoint = await self._endpoint(request)
            if endpoint is None:
                return webhooks.Delivered(outcome="dropped", attempts=attempts)
            if request.awaits_end:
                await self._await_end(request, activity.info().scheduled_time)
            turns = self._turns.setdefault(request.caller_id, _Turns())
            if turns.waiting >= _WAITING_PER_CALLER:
                # The pause grows, so that waiting does not cost more the longer it takes.
                pause = min(max(_elapsed(), _LEAST_BUSY_PAUSE), _MOST_BUSY_PAUSE)
                raise _again(f"{_WAITING_PER_CALLER} other events of this caller wait for their turn.", pause)
            async with turns:
                posted = await self._posted(request, endpoint)
            if posted.outcome is not PostOutcome.DELIVERED:
                raise self._retried(posted)
            return webhooks.Delivered(outcome="delivered", status=posted.status, attempts=attempts)

    async def _endpoint(self, request: webhooks.DeliveryInput) -> webhooks.WebhookEndpoint | None:
        """Return the endpoint to post to now; None for a subscription that was removed."""
        listener = request.listener
        if listener.endpoint is not None:
            return listener.endpoint
        subscription = (await self._subscriptions.of(request.caller_id)).get(listener.id)
        if subscription is not None and not subscription.enabled:
            raise _ended(webhooks.UNDELIVERED, _SWITCHED_OFF)
        return subscription.endpoint if subscription is not None else None

    async def _await_end(self, request: webhooks.DeliveryInput, since: datetime) -> None:
        """Return when the event's subject has ended: the receiver may read its result at once."""
        until = since + timedelta(seconds=_END_SECONDS)
        if request.event.subject is None:
            return
        pause = 0.02
        while datetime.now(UTC) < until:
            description = await described(self._client, request.event.subject)
            if description is None or description.status is not WorkflowExecutionStatus.RUNNING:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    @asynccontextmanager
    async def _place(self, caller_id: str, receiver: str) -> AsyncGenerator[bool]:
        """Hold a place among the requests of the caller, and of the receiver; False when none is free soon."""
        turns = self._turns.setdefault(caller_id, _Turns())
        places = self._receivers.setdefault((caller_id, receiver), asyncio.Semaphore(_AT_ONCE_PER_RECEIVER))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(_TURN_SECONDS if turns.waiting < _WAITING_PER_CALLER else 0):
                    await held.enter_async_context(turns)
                    await held.enter_async_context(places)
            except TimeoutError:
                await held.aclose()
                yield False
                return
            yield True

    async def _posted(self, request: webhooks.DeliveryInput, endpoint: webhooks.WebhookEndpoint) -> Posted:
        now = datetime.now(UTC)
        body = json.dumps(request.event.body, separators=(",", ":"), ensure_ascii=False)
        try:
            keys = [self._opened(request, one.sealed) for one in endpoint.secrets_at(now)]
            url = self._opened(request, endpoint.url).get_secret_value()
        except SealError as error:
            # The operator may put the key back, so it is tried again.
            posted = Posted(PostOutcome.UNREACHABLE, message=str(error))
        else:
            headers = signed_headers(request.event.id, body, keys, now=now)
            posted = await self._sent(url, body.encode(), headers)
        count_attempt(request.event.type, posted.outcome)
        return posted

    async def _sent(self, url: str, body: bytes, headers: Mapping[str, str]) -> Posted:
        """Post once. Whatever goes wrong is a failed attempt: it must not stop the attempts of other events."""
        try:
            return await self._poster.post(url, body, headers)
        except Exception as error:  # noqa: BLE001  # the receiver decides what arrives here
            # Its message may contain the address.
            where = "".join(traceback.format_tb(error.__traceback__))
            activity.logger.error("An attempt to deliver an event failed (%s) at:\n%s", type(error).__name__, where)
            return Posted(PostOutcome.UNREACHABLE, message=f"The attempt failed ({type(error).__name__}).")

    def _opened(self, request: webhooks.DeliveryInput, sealed: SealedSecret) -> SecretStr:
        return self._sealer.open(sealed, purpose=webhook_purpose(request.caller_id))

    def _receiver_of(self, request: webhooks.DeliveryInput, endpoint: webhooks.WebhookEndpoint) -> str:
        """The receiver for which the event waits: the subscription, or the host of an address that the call named."""
        if not request.listener.is_own:
            return request.listener.id
        try:
            address = WebAddress.parse(self._opened(request, endpoint.url).get_secret_value())
        except (SealError, ToolFailure):
            return "own"
        digest = self._sealer.digests(["webhook receiver", request.caller_id, address.host, address.port])[0]
        return f"own-{digest[:24]}"

    async def _enqueue(
        self,
        request: webhooks.AttemptInput,
        receiver: str,
        queue: webhooks.QueueSummary,
        *,
        failure: webhooks.Failure | None = None,
        is_behind: bool = False,
    ) -> webhooks.Attempted:
        """Add the event to its caller's queue. Raises `WebhookUndelivered` where the queue is full."""
        delivery, now = request.delivery, datetime.now(UTC)
        lost_after = self._give_up + MAX_PAUSE + _QUEUE_LOST_AFTER
        is_failing = failure is not None or queue.is_failing(receiver)
        most = webhooks.most_waiting_for(delivery.listener.most_waiting, is_failing=is_failing)
        if queue.waiting >= most:
            count_queued("refused")
            raise _ended(webhooks.UNDELIVERED, too_many_waiting(most))
        if now - request.since > lost_after:
            raise _ended(webhooks.UNDELIVERED, failure.message if failure is not None else "Its time was over.")
        enqueued = webhooks.EnqueueInput(
            receiver=receiver,
            delivery_id=delivery.workflow_id,
            event_at=delivery.event.timestamp,
            since=request.since,
            now=now,
            failure=failure,
            is_behind=is_behind,
            is_test=delivery.event.type is webhooks.WebhookEventType.WEBHOOK_TEST,
            most_waiting=most,
            most_tests=delivery.listener.most_tests,
            first_pause_seconds=self._first_pause.total_seconds(),
            give_up_seconds=self._give_up.total_seconds(),
        )
        await self._queues.enqueue(delivery.caller_id, enqueued)
        count_queued("failed" if failure is not None else "behind" if is_behind else "busy")
        return webhooks.Attempted(
            outcome="queued",
            attempts=0 if failure is None else 1,
            message=None if failure is None else failure.message,
            receiver=receiver,
            attempt_again_seconds=lost_after.total_seconds(),
        )

    async def _round(self, request: webhooks.RoundInput) -> webhooks.RoundResult:
        until = time.monotonic() + _ROUND_SECONDS
        done: list[webhooks.RoundAttempt] = []
        for some in _grouped(request.attempts, _LOADED_AT_ONCE):
            subscription, closed = await self._subscription(request)
            if closed is not None:
                return webhooks.RoundResult(attempts=tuple(done), now=datetime.now(UTC), closed=closed)
            loaded = await asyncio.gather(*(self._loaded(one) for one in some))
            for few in _grouped(list(zip(some, loaded, strict=True)), request.width):
                if time.monotonic() > until or activity.is_worker_shutdown():
                    return webhooks.RoundResult(attempts=tuple(done), now=datetime.now(UTC))
                ended = await asyncio.gather(*(self._attempted(request, *one, subscription) for one in few))
                done += [attempt for attempt, _ in ended]
                closed = next((settled for _, settled in ended if settled is not None), None)
                if closed is not None or _is_over(request, done):
                    return webhooks.RoundResult(attempts=tuple(done), now=datetime.now(UTC), closed=closed)
        return webhooks.RoundResult(attempts=tuple(done), now=datetime.now(UTC))

    async def _subscription(
        self, request: webhooks.RoundInput
    ) -> tuple[webhooks.WebhookSubscription | None, webhooks.Settled | None]:
        """Return the subscription as it is now, or how all its deliveries end. None for an address that calls named."""
        if request.receiver.startswith("own"):
            return None, None
        subscription = (await self._subscriptions.of(request.caller_id)).get(request.receiver)
        if subscription is None:
            return None, webhooks.Settled(outcome="dropped", message=_REMOVED)
        off = webhooks.Settled(outcome="undelivered", message=_SWITCHED_OFF)
        return subscription, None if subscription.enabled else off

    async def _loaded(self, queued: webhooks.QueuedAttempt) -> webhooks.DeliveryInput | webhooks.Failure | None:
        """A waiting delivery; None for one that has ended. One that cannot be read does not hold up the others."""
        try:
            return await self._queues.waiting_delivery(queued.delivery_id)
        except RPCError:
            raise
        except Exception as error:  # noqa: BLE001  # a lost key or payload; it may come back, so it is tried again
            return webhooks.Failure(message=f"The event cannot be read ({type(error).__name__}).")

    async def _attempted(
        self,
        request: webhooks.RoundInput,
        queued: webhooks.QueuedAttempt,
        loaded: webhooks.DeliveryInput | webhooks.Failure | None,
        subscription: webhooks.WebhookSubscription | None,
    ) -> tuple[webhooks.RoundAttempt, webhooks.Settled | None]:
        """Attempt one waiting delivery; the second value is set if all deliveries of its receiver end."""
        name, attempts = queued.delivery_id, queued.attempts + 1
        if loaded is None:
            return webhooks.RoundAttempt(delivery_id=name, outcome="ended"), None
        if isinstance(loaded, webhooks.Failure):
            return webhooks.RoundAttempt(delivery_id=name, outcome="failed", failure=loaded), None
        endpoint = loaded.listener.endpoint or (subscription.endpoint if subscription is not None else None)
        if endpoint is None:
            return webhooks.RoundAttempt(delivery_id=name, outcome="ended"), None
        posted = await self._posted(loaded, endpoint)
        if posted.outcome is PostOutcome.DELIVERED:
            await self._settle(name, webhooks.Settled(outcome="delivered", status=posted.status, attempts=attempts))
            return webhooks.RoundAttempt(delivery_id=name, outcome="delivered"), None
        if posted.is_final:
            end = webhooks.Settled(
                outcome="undelivered", status=posted.status, message=posted.message, attempts=attempts
            )
            is_gone = posted.outcome is PostOutcome.GONE
            await self._settle(name, end.model_copy(update={"is_gone": is_gone}))
            return webhooks.RoundAttempt(delivery_id=name, outcome="ended"), end if is_gone and subscription else None
        wait = webhooks.DeliveryWait(receiver=request.receiver, attempts=attempts, message=posted.message)
        await self._queues.signal_workflow(name, webhooks.ATTEMPTED_SIGNAL, wait)
        return webhooks.RoundAttempt(delivery_id=name, outcome="failed", failure=_failure(posted)), None

    async def _settle(self, delivery_id: str, settled: webhooks.Settled) -> None:
        await self._queues.signal_workflow(delivery_id, webhooks.SETTLE_SIGNAL, settled)

    def _retried(self, posted: Posted) -> ApplicationError:
        if posted.is_final:
            return _ended(webhooks.GONE if posted.outcome is PostOutcome.GONE else webhooks.UNDELIVERED, posted.message)
        pause = pause_after(
            _elapsed(),
            first=self._first_pause,
            give_up=self._give_up,
            asked=_failure(posted).retry_after,
            luck=random.random(),  # noqa: S311 (spreads attempts)
        )
        return _ended(webhooks.UNDELIVERED, posted.message) if pause is None else _again(posted.message, pause)


class _Turns:
    """The requests of one caller's events that this worker has open, and those that wait for their turn."""

    def __init__(self) -> None:
        self.waiting = 0
        self._places = asyncio.Semaphore(_AT_ONCE_PER_CALLER)

    async def __aenter__(self) -> None:
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1

    async def __aexit__(self, *_: object) -> None:
        self._places.release()


def _is_over(request: webhooks.RoundInput, done: Sequence[webhooks.RoundAttempt]) -> bool:
    failures = sum(one.outcome == "failed" for one in done)
    has_success = any(one.outcome == "delivered" for one in done)
    return failures >= request.stops_after_failures or (has_success and request.stops_after_success)


def _grouped(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _failure(posted: Posted) -> webhooks.Failure:
    return webhooks.Failure(message=posted.message, retry_after_seconds=posted.retry_after_seconds)


def _elapsed() -> timedelta:
    """Return the time since the delivery began, whatever the attempt."""
    return datetime.now(UTC) - activity.info().scheduled_time


def _ended(kind: str, message: str) -> ApplicationError:
    return ApplicationError(message, type=kind, non_retryable=True, category=ApplicationErrorCategory.BENIGN)


def _again(message: str, pause: timedelta) -> ApplicationError:
    benign = ApplicationErrorCategory.BENIGN
    return ApplicationError(message, type="WebhookRetry", next_retry_delay=pause, category=benign)


def count_attempt(event_type: webhooks.WebhookEventType, outcome: PostOutcome) -> None:
    """Count one attempt to deliver an event."""
    counter = activity.metric_meter().create_counter(
        "outlast_webhook_attempts", "Attempts to deliver events to webhooks, by outcome."
    )
    counter.add(1, {"type": event_type.value, "outcome": outcome.value})


def count_queued(reason: str) -> None:
    """Count an event that waits because its receiver `failed`, is `busy` or others wait (`behind`), or is `refused`."""
    counter = activity.metric_meter().create_counter(
        "outlast_webhook_queued", "Events that wait in a queue for their receiver, by the reason."
    )
    counter.add(1, {"reason": reason})
