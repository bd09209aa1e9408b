"""`WebhookClient`: subscriptions of callers, one workflow each; `Listeners`: those that a call or batch notifies."""

import ipaddress
import logging
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cachetools import TTLCache
from pydantic import SecretStr
from temporalio.service import RPCError

from outlast.activities.contracts import Caller, Contract, SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import SecretSealer
from outlast.activities.web.address_rules import AddressNotAllowed, AddressRules, WebAddress
from outlast.activities.webhooks import contracts as webhooks
from outlast.activities.webhooks.contracts import (
    WebhookEndpoint,
    WebhookEventType,
    WebhookListener,
    WebhookSecret,
    WebhookSubscription,
)
from outlast.activities.webhooks.posting import new_secret, webhook_purpose
from outlast.activities.webhooks.queues import Subscriptions, WebhookQueues
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import TooManyWebhooks, WebhookNotFound, WebhookRefused
from outlast.api.metrics import LIMITED
from outlast.api.temporal.errors import answer_of_worker, temporal_errors
from outlast.api.temporal.visibility import derived_id
from outlast.contracts import webhooks as contracts
from outlast.workflows.contracts.tool_calls import OwnWebhook

_log = logging.getLogger(__name__)

_EVENTS = tuple(one for one in webhooks.WebhookEventType if one is not webhooks.WebhookEventType.WEBHOOK_TEST)
"""Events that can be subscribed. A test is sent only on request."""


KNOWN_SECONDS = 5.0
"""Time for which an API process caches a caller's subscriptions."""
_MAX_CALLERS = 10_000
Known = tuple[WebhookSubscription, ...]
_TEST = WebhookEventType.WEBHOOK_TEST


class WebhookAddresses:
    """Refuses addresses that deliveries may not reach, by the rules for pages that are fetched for users."""

    def __init__(self, *, allow_private: bool) -> None:
        self._rules = AddressRules(allow_private=allow_private)

    def check(self, url: SecretStr) -> None:
        """Raise `WebhookRefused` for an address that may not be reached. The error does not contain it."""
        try:
            address = WebAddress.parse(url.get_secret_value())
            host = "127.0.0.1" if address.host == "localhost" else address.host
            with suppress(ValueError):
                self._rules.check_resolved(host, address.port, [ipaddress.ip_address(host)])
            self._rules.check(address)
        except AddressNotAllowed as error:
            raise WebhookRefused(
                f"The webhook's address may not be reached: {error.reason}. Give the http or https address of a "
                f"public web server. {error.remedy}".rstrip()
            ) from None


@dataclass(eq=False)
class Listeners:
    """Finds the webhooks of a call or batch. A caller's subscriptions are cached for some seconds. Needs no worker."""

    subscriptions: Subscriptions
    sealer: SecretSealer
    policy: PolicySource
    addresses: WebhookAddresses

    def __post_init__(self) -> None:
        self._known = TTLCache[str, Known, float](_MAX_CALLERS, KNOWN_SECONDS)

    async def of_call(self, caller: Caller, own: Iterable[OwnWebhook] = ()) -> tuple[WebhookListener, ...]:
        """The webhooks for a call's events. Raises `WebhookRefused` for an address that is not allowed."""
        return await self._of(caller, own, of_batch=False)

    async def of_batch(self, caller: Caller, own: Iterable[OwnWebhook] = ()) -> tuple[WebhookListener, ...]:
        """The webhooks for the events of a batch itself. Raises `WebhookRefused`."""
        return await self._of(caller, own, of_batch=True)

    def forget(self, caller_id: str) -> None:
        """Drop the cached subscriptions of a caller who has changed them."""
        self._known.pop(caller_id, None)

    async def _of(self, caller: Caller, own: Iterable[OwnWebhook], *, of_batch: bool) -> tuple[WebhookListener, ...]:
        events = [one for one in WebhookEventType if one.is_of_batch == of_batch and one is not _TEST]
        named = [self._sealed(caller, number, one, events) for number, one in enumerate(own, start=1)]
        subscribed = [_listener(one, events) for one in await self._subscribed(caller.id) if one.enabled]
        return tuple(self.limited(caller, one) for one in (*subscribed, *named) if one.events)

    def limited(self, caller: Caller, listener: WebhookListener) -> WebhookListener:
        """The listener with the caller's limits on events that wait."""
        limits = self.policy.of(caller.id).limits
        return listener.model_copy(
            update={"most_waiting": limits.webhook_deliveries, "most_tests": limits.webhook_tests}
        )

    async def _subscribed(self, caller_id: str) -> Known:
        known = self._known.get(caller_id)
        if known is None:
            with temporal_errors():
                known = (await self.subscriptions.of(caller_id)).subscriptions
            self._known[caller_id] = known
        return known

    def _sealed(
        self, caller: Caller, number: int, own: OwnWebhook, events: Iterable[WebhookEventType]
    ) -> WebhookListener:
        self.addresses.check(own.url)
        purpose = webhook_purpose(caller.id)
        endpoint = WebhookEndpoint(
            url=self.sealer.seal(own.url, purpose=purpose),
            secrets=(WebhookSecret(sealed=self.sealer.seal(own.secret, purpose=purpose)),),
        )
        return WebhookListener(id=f"own-{number}", events=_chosen_listeners(own.events, events), endpoint=endpoint)


def _listener(subscription: WebhookSubscription, events: Iterable[WebhookEventType]) -> WebhookListener:
    chosen = _chosen_listeners(subscription.events, events)
    return WebhookListener(id=subscription.id, events=chosen, batch_items=subscription.batch_items)


def _chosen_listeners(
    wanted: tuple[WebhookEventType, ...], there: Iterable[WebhookEventType]
) -> tuple[WebhookEventType, ...]:
    """The wanted events among those that exist; all of them by default."""
    return tuple(one for one in there if not wanted or one in wanted)


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
