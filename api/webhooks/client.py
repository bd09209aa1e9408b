"""`WebhookClient`: callers' subscriptions, which one workflow per caller keeps."""

import logging
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import SecretStr
from temporalio.service import RPCError

from outlast.activities.contracts import Caller, Contract, SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import SecretSealer
from outlast.activities.webhooks import contracts as webhooks
from outlast.activities.webhooks.posting import new_secret, webhook_purpose
from outlast.activities.webhooks.queues import Subscriptions, WebhookQueues
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog
from outlast.api.errors import TooManyWebhooks, WebhookNotFound
from outlast.api.metrics import LIMITED
from outlast.api.temporal.errors import answer_of_worker, temporal_errors
from outlast.api.temporal.executions import derived_id
from outlast.api.webhooks.listeners import Listeners, WebhookAddresses
from outlast.contracts import webhooks as contracts

_log = logging.getLogger(__name__)

_EVENTS = tuple(one for one in webhooks.WebhookEventType if one is not webhooks.WebhookEventType.WEBHOOK_TEST)
"""Events that can be subscribed. A test is sent only on request."""


@dataclass(eq=False)
class WebhookClient:
    """Client of webhooks for every entry point. Its methods raise `ApiError`s. Only changes need a worker."""

    subscriptions: Subscriptions
    queues: WebhookQueues
    sealer: SecretSealer
    policy: PolicySource
    audit: AuditLog
    listeners: Listeners
    addresses: WebhookAddresses

    async def create(
        self, caller: Caller, request: contracts.WebhookRequest, *, idempotency_key: str | None = None
    ) -> contracts.Webhook:
        """Subscribe a webhook, and return it with its secret. The same key gives the same webhook.

        Raises `WebhookRefused`, `TooManyWebhooks`.
        """
        async with self.audit.action(AuditEvent.WEBHOOK_CREATED, caller) as action:
            self.addresses.check(request.url)
            now, key = datetime.now(UTC), idempotency_key
            secret = webhooks.WebhookSecret(sealed=self._seal(caller, request.secret or new_secret()))
            endpoint = webhooks.WebhookEndpoint(url=self._seal(caller, request.url), secrets=(secret,))
            own_id = derived_id("webhook", "webhook", caller.id, key, chars=24)
            subscription = webhooks.WebhookSubscription(
                id=own_id if key is not None else f"webhook-{secrets.token_hex(12)}",
                name=request.name,
                events=_chosen(request.events),
                batch_items=request.batch_items,
                endpoint=endpoint,
                created_at=now,
                updated_at=now,
            )
            action.note(webhook=subscription.id)
            most = self.policy.of(caller.id).limits.webhooks
            made = await self._change(
                caller, webhooks.CREATE_UPDATE, webhooks.CreateInput(subscription=subscription, most=most)
            )
            return self._view(caller, made, with_secret=True)

    async def list(self, caller: Caller) -> contracts.WebhookList:
        """The caller's webhooks."""
        waiting = await self._waiting(caller)
        return contracts.WebhookList(
            webhooks=tuple(self._view(caller, one, waiting=waiting) for one in await self._all(caller))
        )

    async def get(self, caller: Caller, webhook_id: str) -> contracts.Webhook:
        """One webhook. Raises `WebhookNotFound`."""
        kept = await self.subscription(caller, webhook_id)
        return self._view(caller, kept, waiting=await self._waiting(caller))

    async def subscription(self, caller: Caller, webhook_id: str) -> webhooks.WebhookSubscription:
        """The stored subscription of a webhook. Raises `WebhookNotFound`."""
        found = next((one for one in await self._all(caller) if one.id == webhook_id), None)
        if found is None:
            raise _not_found(webhook_id)
        return found

    async def edit(self, caller: Caller, webhook_id: str, changes: contracts.WebhookChanges) -> contracts.Webhook:
        """Change a webhook. Raises `WebhookNotFound`, `WebhookRefused`."""
        async with self.audit.action(AuditEvent.WEBHOOK_CHANGED, caller, webhook=webhook_id):
            if changes.url is not None:
                self.addresses.check(changes.url)
            request = webhooks.EditInput(
                webhook_id=webhook_id,
                name=changes.name,
                events=None if changes.events is None else _chosen(changes.events),
                batch_items=changes.batch_items,
                url=None if changes.url is None else self._seal(caller, changes.url),
                enabled=changes.enabled,
            )
            await self.subscription(caller, webhook_id)
            changed = await self._change(caller, webhooks.EDIT_UPDATE, request)
            await self._recheck(caller, webhook_id)
            return self._view(caller, changed)

    async def rotate(self, caller: Caller, webhook_id: str, request: contracts.RotationRequest) -> contracts.Webhook:
        """Give a webhook a new secret, and return it with the secret. Raises `WebhookNotFound`."""
        async with self.audit.action(AuditEvent.WEBHOOK_ROTATED, caller, webhook=webhook_id):
            kept = await self.subscription(caller, webhook_id)
            read_url = kept.endpoint.url
            address, damaged = self._opened_address(caller, kept)
            # An address that cannot be decrypted stays, until a change of the webhook gives another one.
            url = self._seal(caller, SecretStr(address)) if address else read_url
            # An old secret that cannot be decrypted signs nothing, so it needs no grace period.
            grace = timedelta(0) if damaged else timedelta(seconds=request.grace_seconds)
            rotation = webhooks.RotateInput(
                webhook_id=webhook_id,
                secret=self._seal(caller, request.secret or new_secret()),
                old_until=datetime.now(UTC) + grace,
                read_url=read_url,
                url=url,
            )
            rotated = await self._change(caller, webhooks.ROTATE_UPDATE, rotation)
            await self._recheck(caller, webhook_id)
            return self._view(caller, rotated, with_secret=True)

    async def remove(self, caller: Caller, webhook_id: str) -> None:
        """Remove a webhook. Events that are on their way to it are dropped. Raises `WebhookNotFound`."""
        async with self.audit.action(AuditEvent.WEBHOOK_DELETED, caller, webhook=webhook_id):
            await self.subscription(caller, webhook_id)
            await self._change(caller, webhooks.REMOVE_UPDATE, webhooks.RemoveInput(webhook_id=webhook_id))
            await self._recheck(caller, webhook_id)

    async def ids(self, caller: Caller) -> tuple[str, ...]:
        """The ids of the caller's webhooks."""
        return tuple(one.id for one in await self._all(caller))

    async def _recheck(self, caller: Caller, webhook_id: str) -> None:
        """Attempt waiting events, or drop them, now rather than after the current pause."""
        try:
            await self.queues.recheck(caller.id, webhooks.RecheckInput(receiver=webhook_id, now=datetime.now(UTC)))
        except RPCError as error:
            # The change is stored, and the next attempt notices it.
            _log.warning("The queue of %s was not notified of a change: %s", caller.id, error)

    async def _waiting(self, caller: Caller) -> webhooks.QueueSummary:
        with temporal_errors():
            return await self.queues.of(caller.id)

    async def _all(self, caller: Caller) -> tuple[webhooks.WebhookSubscription, ...]:
        with temporal_errors():
            return (await self.subscriptions.of(caller.id)).subscriptions

    async def _change(self, caller: Caller, update: str, request: Contract) -> webhooks.WebhookSubscription:
        try:
            with temporal_errors():
                answer = await answer_of_worker(self.subscriptions.change(caller.id, update, request))
        finally:
            self.listeners.forget(caller.id)
        if answer.refusal == "too_many":
            LIMITED.labels("webhooks").inc()
            most = self.policy.of(caller.id).limits.webhooks
            message = f"You may have {most} webhooks (`webhooks` in the operator's policy). Remove one."
            raise TooManyWebhooks(message)
        if answer.subscription is None:
            raise _not_found(getattr(request, "webhook_id", ""))
        return answer.subscription

    def _seal(self, caller: Caller, secret: SecretStr) -> SealedSecret:
        return self.sealer.seal(secret, purpose=webhook_purpose(caller.id))

    def _open(self, caller: Caller, sealed: SealedSecret) -> str:
        return self.sealer.open(sealed, purpose=webhook_purpose(caller.id)).get_secret_value()

    def _opened_address(self, caller: Caller, kept: webhooks.WebhookSubscription) -> tuple[str, str | None]:
        """The address of a webhook, and the reason if its address or secret cannot be decrypted."""
        try:
            url = self._open(caller, kept.endpoint.url)
        except SealError as error:
            return (
                "",
                f"Its address cannot be decrypted: {error} Give it another `url`, rotate its secret, or delete it.",
            )
        try:
            self._open(caller, kept.endpoint.secrets[0].sealed)
        except SealError as error:
            return url, f"Its secret cannot be decrypted: {error} Rotate the secret, or delete the webhook."
        return url, None

    def _view(
        self,
        caller: Caller,
        kept: webhooks.WebhookSubscription,
        *,
        with_secret: bool = False,
        waiting: webhooks.QueueSummary | None = None,
    ) -> contracts.Webhook:
        secrets_now = kept.endpoint.secrets_at(datetime.now(UTC))
        url, damaged = self._opened_address(caller, kept)
        return contracts.Webhook(
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


def _backlog(waiting: webhooks.ReceiverSummary | None) -> contracts.WebhookBacklog | None:
    if waiting is None or not waiting.waiting:
        return None
    return contracts.WebhookBacklog(
        events=waiting.waiting,
        failing_since=waiting.failing_since,
        next_attempt_at=waiting.next_attempt_at,
        message=waiting.message,
    )


def _chosen(events: Iterable[webhooks.WebhookEventType]) -> tuple[webhooks.WebhookEventType, ...]:
    wanted = frozenset(events)
    return tuple(one for one in _EVENTS if not wanted or one in wanted)


def _not_found(webhook_id: str) -> WebhookNotFound:
    return WebhookNotFound(f"You have no webhook {webhook_id!r}. List them: GET /v1/webhooks.")
