"""The activity that delivers one event to one webhook."""

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from weakref import WeakValueDictionary

from pydantic import SecretStr
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import SealedSecret
from outlast.activities.heartbeat import activity_scope
from outlast.activities.secrets.sealer import SealError, SecretSealer
from outlast.activities.webhooks.contracts import GONE, UNDELIVERED, Delivered, DeliveryInput, WebhookEndpoint
from outlast.activities.webhooks.metrics import count_attempt
from outlast.activities.webhooks.posting import Posted, PostOutcome, WebhookPoster
from outlast.activities.webhooks.retrying import pause_after
from outlast.activities.webhooks.signing import signed_headers, webhook_purpose
from outlast.activities.webhooks.subscriptions import Subscriptions

DELIVERY_ATTEMPT_TIMEOUT = timedelta(minutes=5)
DELIVERY_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
DELIVERY_TIMEOUT = timedelta(days=31)
"""The worker gives up earlier, by its own setting."""
DELIVERY_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_interval=timedelta(minutes=10)
)
"""After the death of a worker. After an answer of the receiver, the activity says itself how long to wait."""

_AT_ONCE_PER_CALLER = 20
"""Requests of one caller's events that a worker has under way: a receiver that hangs keeps few connections."""
_WAITING_PER_CALLER = 200
_BUSY_PAUSE = timedelta(seconds=15)
_END_SECONDS = 10.0
"""How long the end of an event's subject is waited for."""


class WebhookActivities:
    """Delivers events."""

    def __init__(
        self,
        client: Client,
        subscriptions: Subscriptions,
        sealer: SecretSealer,
        poster: WebhookPoster,
        *,
        first_pause: timedelta,
        give_up: timedelta,
    ) -> None:
        """Post with `poster`. After a failure wait, `first_pause` at first; `give_up` after that time."""
        self._client = client
        self._subscriptions = subscriptions
        self._sealer = sealer
        self._poster = poster
        self._first_pause = first_pause
        self._give_up = give_up
        self._turns: WeakValueDictionary[str, _Turns] = WeakValueDictionary()

    @activity.defn
    async def deliver_webhook(self, request: DeliveryInput) -> Delivered:
        """Post the event, signed. An event for a subscription that was removed meanwhile is dropped.

        Fails with `WebhookGone` for an answer of 410, with `WebhookUndelivered` when no attempt will be made any more.
        """
        async with activity_scope():
            attempts = activity.info().attempt
            endpoint = await self._endpoint(request)
            if endpoint is None:
                return Delivered(outcome="dropped", attempts=attempts)
            if request.awaits_end:
                await self._await_end(request)
            posted = await self._post(request, endpoint)
            count_attempt(request.event.type, posted.outcome)
            if posted.outcome is not PostOutcome.DELIVERED:
                raise self._failure(posted)
            return Delivered(outcome="delivered", status=posted.status, attempts=attempts)

    async def _endpoint(self, request: DeliveryInput) -> WebhookEndpoint | None:
        """Where to post now; None for a subscription that was removed."""
        listener = request.listener
        if listener.endpoint is not None:
            return listener.endpoint
        subscription = (await self._subscriptions.of(request.caller_id)).get(listener.id)
        if subscription is not None and not subscription.enabled:
            raise _ended(UNDELIVERED, "The webhook is switched off.")
        return subscription.endpoint if subscription is not None else None

    async def _await_end(self, request: DeliveryInput) -> None:
        """Return when the event's subject has ended: who is told of a result may read it at once."""
        if request.event.subject is None or _elapsed() > timedelta(seconds=_END_SECONDS):
            return
        handle = self._client.get_workflow_handle(request.event.subject)
        pause = 0.02
        while _elapsed() < timedelta(seconds=_END_SECONDS):
            try:
                description = await handle.describe()
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                return
            if description.status is not WorkflowExecutionStatus.RUNNING:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _post(self, request: DeliveryInput, endpoint: WebhookEndpoint) -> Posted:
        turns = self._turns.setdefault(request.caller_id, _Turns())
        if turns.waiting >= _WAITING_PER_CALLER:
            raise _again(f"{_WAITING_PER_CALLER} other events of this caller wait for their turn.", _BUSY_PAUSE)
        async with turns:
            now = datetime.now(UTC)
            body = json.dumps(request.event.body, separators=(",", ":"), ensure_ascii=False)
            try:
                keys = [self._opened(request, one.sealed) for one in endpoint.secrets_at(now)]
                url = self._opened(request, endpoint.url).get_secret_value()
            except SealError as error:
                # The operator may put the key back, so it is tried again.
                return Posted(PostOutcome.UNREACHABLE, message=str(error))
            headers = signed_headers(request.event.id, body, keys, now=now)
            return await self._poster.post(url, body.encode(), headers)

    def _opened(self, request: DeliveryInput, sealed: SealedSecret) -> SecretStr:
        return self._sealer.open(sealed, purpose=webhook_purpose(request.caller_id))

    def _failure(self, posted: Posted) -> ApplicationError:
        if posted.outcome is PostOutcome.GONE:
            return _ended(GONE, posted.message)
        if posted.outcome is PostOutcome.FORBIDDEN:
            return _ended(UNDELIVERED, posted.message)
        asked = posted.retry_after_seconds
        pause = pause_after(
            _elapsed(),
            first=self._first_pause,
            give_up=self._give_up,
            asked=timedelta(seconds=asked) if asked is not None else None,
            luck=random.random(),  # noqa: S311 (spreads attempts)
        )
        return _ended(UNDELIVERED, posted.message) if pause is None else _again(posted.message, pause)


class _Turns:
    """The requests of one caller's events that this worker has under way, and those that wait for their turn."""

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


def _elapsed() -> timedelta:
    """The time since the delivery began, whatever the attempt."""
    return datetime.now(UTC) - activity.info().scheduled_time


def _ended(kind: str, message: str) -> ApplicationError:
    return ApplicationError(message, type=kind, non_retryable=True, category=ApplicationErrorCategory.BENIGN)


def _again(message: str, pause: timedelta) -> ApplicationError:
    return ApplicationError(
        message, type="WebhookRetry", next_retry_delay=pause, category=ApplicationErrorCategory.BENIGN
    )
