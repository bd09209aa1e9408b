"""Webhooks that are notified of a call or batch: chosen at its start, from the current subscriptions of its caller."""

import ipaddress
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from cachetools import TTLCache
from pydantic import SecretStr

from outlast.activities.contracts import Caller
from outlast.activities.secrets import SecretSealer
from outlast.activities.web.address_rules import AddressNotAllowed, AddressRules, WebAddress
from outlast.activities.webhooks.contracts import (
    WebhookEndpoint,
    WebhookEventType,
    WebhookListener,
    WebhookSecret,
    WebhookSubscription,
)
from outlast.activities.webhooks.posting import webhook_purpose
from outlast.activities.webhooks.queues import Subscriptions
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import WebhookRefused
from outlast.api.temporal.errors import temporal_errors
from outlast.workflows.contracts.tool_calls import OwnWebhook

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
        return WebhookListener(id=f"own-{number}", events=_chosen(own.events, events), endpoint=endpoint)


def _listener(subscription: WebhookSubscription, events: Iterable[WebhookEventType]) -> WebhookListener:
    chosen = _chosen(subscription.events, events)
    return WebhookListener(id=subscription.id, events=chosen, batch_items=subscription.batch_items)


def _chosen(wanted: tuple[WebhookEventType, ...], there: Iterable[WebhookEventType]) -> tuple[WebhookEventType, ...]:
    """The wanted events among those that exist; all of them by default."""
    return tuple(one for one in there if not wanted or one in wanted)
