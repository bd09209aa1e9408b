"""`WebhookClient`: what callers subscribe. Their subscriptions are kept by a workflow each."""

import hashlib
import json
import logging
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pydantic import SecretStr
from temporalio.service import RPCError

from outlast.activities.contracts import Caller, Contract, SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets.encryption import SecretSealer
from outlast.activities.webhooks.contracts import (
    CREATE_UPDATE,
    EDIT_UPDATE,
    REMOVE_UPDATE,
    ROTATE_UPDATE,
    CreateInput,
    EditInput,
    QueueSummary,
    ReceiverSummary,
    RecheckInput,
    RemoveInput,
    RotateInput,
    WebhookEndpoint,
    WebhookEventType,
    WebhookSecret,
    WebhookSubscription,
)
from outlast.activities.webhooks.posting import new_secret, webhook_purpose
from outlast.activities.webhooks.queues import Subscriptions, WebhookQueues
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.errors import TooManyWebhooks, WebhookNotFound
from outlast.api.metrics import LIMITED
from outlast.api.temporal.errors import answer_of_worker, temporal_errors
from outlast.api.webhooks.listeners import Listeners, WebhookAddresses
from outlast.contracts.webhooks import (
    RotationRequest,
    Webhook,
    WebhookBacklog,
    WebhookChanges,
    WebhookList,
    WebhookRequest,
)

_log = logging.getLogger(__name__)

_EVENTS = tuple(one for one in WebhookEventType if one is not WebhookEventType.WEBHOOK_TEST)
"""What can be subscribed. A test is sent when it is asked for."""


class WebhookClient:
    """Creates, shows, changes and removes webhooks, for every entry point.

    Each method raises an `outlast.api.errors.ApiError` when it fails, for example `TemporalUnavailable`. Changes need a
    worker; what there is can be read without one.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        queues: WebhookQueues,
        sealer: SecretSealer,
        policy: PolicySource,
        audit: AuditLog,
        listeners: Listeners,
        addresses: WebhookAddresses,
    ) -> None:
        """Keep `subscriptions` with sealed addresses and secrets, as many as the `policy` in force allows."""
        self._subscriptions = subscriptions
        self._queues = queues
        self._sealer = sealer
        self._policy = policy
        self._audit = audit
        self._listeners = listeners
        self._addresses = addresses

    async def create(self, caller: Caller, request: WebhookRequest, *, idempotency_key: str | None = None) -> Webhook:
        """Subscribe a webhook; the answer has its secret. The same key gives the same webhook.

        Raises `WebhookRefused`, and `TooManyWebhooks`.
        """
        async with self._audit.action(AuditEvent.WEBHOOK_CREATED, caller) as action:
            self._addresses.check(request.url)
            now = datetime.now(UTC)
            secret = request.secret or new_secret()
            subscription = WebhookSubscription(
                id=_webhook_id(caller, idempotency_key),
                name=request.name,
                events=_chosen(request.events),
                batch_items=request.batch_items,
                endpoint=WebhookEndpoint(
                    url=self._seal(caller, request.url), secrets=(WebhookSecret(sealed=self._seal(caller, secret)),)
                ),
                created_at=now,
                updated_at=now,
            )
            action.note(webhook=subscription.id)
            most = self._policy.of(caller.id).limits.webhooks
            made = await self._change(caller, CREATE_UPDATE, CreateInput(subscription=subscription, most=most))
            return self._view(caller, made, with_secret=True)

    async def list(self, caller: Caller) -> WebhookList:
        """The caller's webhooks."""
        waiting = await self._waiting(caller)
        return WebhookList(webhooks=tuple(self._view(caller, one, waiting=waiting) for one in await self._all(caller)))

    async def get(self, caller: Caller, webhook_id: str) -> Webhook:
        """One webhook. Raises `WebhookNotFound`."""
        kept = await self.subscription(caller, webhook_id)
        return self._view(caller, kept, waiting=await self._waiting(caller))

    async def subscription(self, caller: Caller, webhook_id: str) -> WebhookSubscription:
        """One webhook as it is kept. Raises `WebhookNotFound`."""
        found = next((one for one in await self._all(caller) if one.id == webhook_id), None)
        if found is None:
            raise _not_found(webhook_id)
        return found

    async def edit(self, caller: Caller, webhook_id: str, changes: WebhookChanges) -> Webhook:
        """Change a webhook. Raises `WebhookNotFound`, `WebhookRefused`."""
        async with self._audit.action(AuditEvent.WEBHOOK_CHANGED, caller, webhook=webhook_id):
            if changes.url is not None:
                self._addresses.check(changes.url)
            request = EditInput(
                webhook_id=webhook_id,
                name=changes.name,
                events=None if changes.events is None else _chosen(changes.events),
                batch_items=changes.batch_items,
                url=None if changes.url is None else self._seal(caller, changes.url),
                enabled=changes.enabled,
            )
            await self.subscription(caller, webhook_id)
            changed = await self._change(caller, EDIT_UPDATE, request)
            await self._recheck(caller, webhook_id)
            return self._view(caller, changed)

    async def rotate(self, caller: Caller, webhook_id: str, request: RotationRequest) -> Webhook:
        """Give a webhook a new secret, which the answer has. Raises `WebhookNotFound`."""
        async with self._audit.action(AuditEvent.WEBHOOK_ROTATED, caller, webhook=webhook_id):
            kept = await self.subscription(caller, webhook_id)
            read_url = kept.endpoint.url
            address, damaged = self._opened_address(caller, kept)
            # An address that does not open stays: a change of the webhook gives another one.
            url = self._seal(caller, SecretStr(address)) if address else read_url
            # Nor would a secret that does not open sign anything meanwhile.
            grace = timedelta(0) if damaged else timedelta(seconds=request.grace_seconds)
            rotation = RotateInput(
                webhook_id=webhook_id,
                secret=self._seal(caller, request.secret or new_secret()),
                old_until=datetime.now(UTC) + grace,
                read_url=read_url,
                url=url,
            )
            rotated = await self._change(caller, ROTATE_UPDATE, rotation)
            await self._recheck(caller, webhook_id)
            return self._view(caller, rotated, with_secret=True)

    async def remove(self, caller: Caller, webhook_id: str) -> None:
        """Remove a webhook. Events that are on their way to it are dropped. Raises `WebhookNotFound`."""
        async with self._audit.action(AuditEvent.WEBHOOK_DELETED, caller, webhook=webhook_id):
            await self.subscription(caller, webhook_id)
            await self._change(caller, REMOVE_UPDATE, RemoveInput(webhook_id=webhook_id))
            await self._recheck(caller, webhook_id)

    async def ids(self, caller: Caller) -> tuple[str, ...]:
        """The ids of the caller's webhooks."""
        return tuple(one.id for one in await self._all(caller))

    async def _recheck(self, caller: Caller, webhook_id: str) -> None:
        """Have waiting events attempted, or dropped, now rather than after the current pause."""
        try:
            await self._queues.recheck(caller.id, RecheckInput(receiver=webhook_id, now=datetime.now(UTC)))
        except RPCError as error:
            # The change is made, and the next probe notices it.
            _log.warning("The queue of %s was not notified of a change: %s", caller.id, error)

    async def _waiting(self, caller: Caller) -> QueueSummary:
        with temporal_errors():
            return await self._queues.of(caller.id)

    async def _all(self, caller: Caller) -> tuple[WebhookSubscription, ...]:
        with temporal_errors():
            return (await self._subscriptions.of(caller.id)).subscriptions

    async def _change(self, caller: Caller, update: str, request: Contract) -> WebhookSubscription:
        try:
            with temporal_errors():
                answer = await answer_of_worker(self._subscriptions.change(caller.id, update, request))
        finally:
            self._listeners.forget(caller.id)
        if answer.refusal == "too_many":
            LIMITED.labels("webhooks").inc()
            raise TooManyWebhooks(
                f"You may have {self._policy.of(caller.id).limits.webhooks} webhooks (`webhooks` in the operator's "
                "policy). Remove one that you do not need."
            )
        if answer.subscription is None:
            raise _not_found(getattr(request, "webhook_id", ""))
        return answer.subscription

    def _seal(self, caller: Caller, secret: SecretStr) -> SealedSecret:
        return self._sealer.seal(secret, purpose=webhook_purpose(caller.id))

    def _open(self, caller: Caller, sealed: SealedSecret) -> str:
        return self._sealer.open(sealed, purpose=webhook_purpose(caller.id)).get_secret_value()

    def _opened_address(self, caller: Caller, kept: WebhookSubscription) -> tuple[str, str | None]:
        """The address of a webhook; and why no event can be sent, when address or secret cannot be opened."""
        try:
            url = self._open(caller, kept.endpoint.url)
        except SealError as error:
            return "", f"Its address cannot be opened: {error} Give it another `url`, rotate its secret, or delete it."
        try:
            self._open(caller, kept.endpoint.secrets[0].sealed)
        except SealError as error:
            return url, f"Its secret cannot be opened: {error} Rotate the secret, or delete the webhook."
        return url, None

    def _view(
        self,
        caller: Caller,
        kept: WebhookSubscription,
        *,
        with_secret: bool = False,
        waiting: QueueSummary | None = None,
    ) -> Webhook:
        now = datetime.now(UTC)
        secrets_now = kept.endpoint.secrets_at(now)
        url, damaged = self._opened_address(caller, kept)
        return Webhook(
            id=kept.id,
            url=url,
            damaged=damaged,
            name=kept.name,
            events=tuple(kept.events),
            batch_items=kept.batch_items,
            enabled=kept.enabled,
            disabled_reason=kept.disabled_reason,
            created_at=kept.created_at,
            updated_at=kept.updated_at,
            old_secret_until=max((one.until for one in secrets_now if one.until is not None), default=None),
            backlog=None if waiting is None else _backlog(waiting.of(kept.id)),
            secret=self._open(caller, kept.endpoint.secrets[0].sealed) if with_secret else None,
        )


def _backlog(waiting: ReceiverSummary | None) -> WebhookBacklog | None:
    if waiting is None or not waiting.waiting:
        return None
    return WebhookBacklog(
        events=waiting.waiting,
        failing_since=waiting.failing_since,
        next_attempt_at=waiting.next_attempt_at,
        message=waiting.message,
    )


def _chosen(events: Iterable[WebhookEventType]) -> tuple[WebhookEventType, ...]:
    wanted = frozenset(events)
    return tuple(one for one in _EVENTS if not wanted or one in wanted)


def _webhook_id(caller: Caller, key: str | None) -> str:
    if key is None:
        return f"webhook-{secrets.token_hex(12)}"
    return f"webhook-{hashlib.sha256(json.dumps(['webhook', caller.id, key]).encode()).hexdigest()[:24]}"


def _not_found(webhook_id: str) -> WebhookNotFound:
    return WebhookNotFound(f"You have no webhook {webhook_id!r}. List them: GET /v1/webhooks.")
