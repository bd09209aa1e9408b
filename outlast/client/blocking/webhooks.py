"""`client.webhooks`."""

from collections.abc import Sequence

from outlast.client.blocking.transport import Stream, Transport
from outlast.client.contracts.webhooks import Delivery, Webhook
from outlast.client.flows import webhooks
from outlast.client.flows.server import Server
from outlast.client.flows.webhooks import DeliveryFilter


class Webhooks:
    """Addresses that hear of what your tasks and batches do, signed as Standard Webhooks says."""

    def __init__(self, server: Server, transport: Transport) -> None:
        self._server = server
        self._transport = transport

    def create(
        self,
        url: str,
        events: Sequence[str] = (),
        *,
        name: str | None = None,
        batch_items: bool = False,
        secret: str | None = None,
        idempotency_key: str | None = None,
    ) -> Webhook:
        """Have `url` told of `events`, of all without any. The answer has the `secret` that signs them, a new one
        unless it is given; keep it, it is not shown again.
        """
        body = webhooks.settings(url=url, events=events, name=name, batch_items=batch_items or None, secret=secret)
        return self._transport.run(webhooks.create(self._server, body, idempotency_key))

    def list(self) -> tuple[Webhook, ...]:
        """Return your webhooks, without their secrets."""
        return self._transport.run(webhooks.listed(self._server)).webhooks

    def get(self, webhook_id: str) -> Webhook:
        """Return one webhook, without its secret."""
        return self._transport.run(webhooks.get(self._server, webhook_id))

    def update(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        name: str | None = None,
        batch_items: bool | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change what is given; the rest stays. Without events (`[]`), it hears of all."""
        changes = webhooks.settings(url=url, events=events, name=name, batch_items=batch_items, enabled=enabled)
        return self._transport.run(webhooks.update(self._server, webhook_id, changes))

    def delete(self, webhook_id: str) -> None:
        """Remove a webhook. Events that are on their way to it are dropped."""
        self._transport.run(webhooks.delete(self._server, webhook_id))

    def rotate_secret(
        self, webhook_id: str, *, grace_seconds: float | None = None, secret: str | None = None
    ) -> Webhook:
        """Sign with a new secret, which the answer has. The one before signs as well for `grace_seconds`, a day without
        them.
        """
        return self._transport.run(webhooks.rotate(self._server, webhook_id, grace_seconds, secret))

    def test(self, webhook_id: str) -> Delivery:
        """Send a `webhook.test` event; `delivery` says what became of it."""
        return self._transport.run(webhooks.test(self._server, webhook_id))

    def deliveries(
        self, status: str = "undelivered", *, webhook_id: str | None = None, limit: int | None = None
    ) -> Stream[Delivery]:
        """Iterate over what was not delivered, or is `delivering` or `delivered`, the latest first."""
        return self._transport.stream(webhooks.deliveries(self._server, DeliveryFilter(status, webhook_id), limit))

    def delivery(self, delivery_id: str) -> Delivery:
        """Return one event for one webhook: how often it was tried, what went wrong, when it is tried next."""
        return self._transport.run(webhooks.delivery(self._server, delivery_id))

    def replay(self, delivery_id: str) -> Delivery:
        """Send an event again, with its id."""
        return self._transport.run(webhooks.replay(self._server, delivery_id))

    def replay_all(self, *, webhook_id: str | None = None) -> int:
        """Send everything that was not delivered again, of one webhook if it is named. Returns how many events."""
        return self._transport.run(webhooks.replay_all(self._server, webhook_id))
