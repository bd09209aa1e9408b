# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""`client.webhooks` of `Client`."""

from collections.abc import Sequence

from outlast.client.blocking.transport import Stream, Transport
from outlast.client.http import HttpRequest, idempotency, path, query
from outlast.client.requests import DELIVERIES_PAGE_SIZE, given, webhook_body
from outlast.contracts.webhooks import Delivery, DeliveryPage, Replayed, Webhook, WebhookList


class Webhooks:
    """Addresses that receive events of your tasks and batches, signed by the Standard Webhooks specification."""

    def __init__(self, transport: Transport) -> None:
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
        """Send `events` to `url`, all of them by default. The answer has the `secret` that signs them, a new one
        unless it is given; keep it, it is not shown again.
        """
        body = webhook_body(url=url, events=events, name=name, batch_items=batch_items or None, secret=secret)
        headers = idempotency(idempotency_key)
        return self._transport.fetch(Webhook, HttpRequest("POST", path("webhooks"), headers=headers, body=body))

    def list(self) -> tuple[Webhook, ...]:
        """Return your webhooks, without their secrets."""
        return (self._transport.fetch(WebhookList, HttpRequest("GET", path("webhooks")))).webhooks

    def get(self, webhook_id: str) -> Webhook:
        """Return one webhook, without its secret."""
        return self._transport.fetch(Webhook, HttpRequest("GET", path("webhooks", webhook_id)))

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
        """Change what is given; the rest stays. With an empty list of events (`[]`) it receives all."""
        changes = webhook_body(url=url, events=events, name=name, batch_items=batch_items, enabled=enabled)
        return self._transport.fetch(Webhook, HttpRequest("PATCH", path("webhooks", webhook_id), body=changes))

    def delete(self, webhook_id: str) -> None:
        """Remove a webhook. Events that are being delivered to it are dropped."""
        self._transport.delete(path("webhooks", webhook_id))

    def rotate_secret(
        self, webhook_id: str, *, grace_seconds: float | None = None, secret: str | None = None
    ) -> Webhook:
        """Sign with a new secret, which the answer has. The previous one also signs for `grace_seconds`; a day by
        default.
        """
        body = given(grace_seconds=None if grace_seconds is None else round(grace_seconds), secret=secret)
        wanted = HttpRequest("POST", path("webhooks", webhook_id, "rotate"), body=body)
        return self._transport.fetch(Webhook, wanted)

    def test(self, webhook_id: str) -> Delivery:
        """Send a `webhook.test` event; `delivery` returns its state."""
        return self._transport.fetch(Delivery, HttpRequest("POST", path("webhooks", webhook_id, "test")))

    def deliveries(
        self, status: str = "undelivered", *, webhook_id: str | None = None, limit: int | None = None
    ) -> Stream[Delivery]:
        """Iterate over events that are `undelivered`, `delivering` or `delivered`, the latest first."""
        return self._transport.listed(
            DeliveryPage,
            lambda size, token: HttpRequest(
                "GET",
                path("webhooks", "deliveries"),
                query(status=status, webhook_id=webhook_id, page_size=size, page_token=token),
            ),
            lambda page: (page.deliveries, page.next_page_token),
            limit=limit,
            page_size=DELIVERIES_PAGE_SIZE,
        )

    def delivery(self, delivery_id: str) -> Delivery:
        """Return the delivery of one event to one webhook: its attempts, its latest error, its next attempt."""
        return self._transport.fetch(Delivery, HttpRequest("GET", path("webhooks", "deliveries", delivery_id)))

    def replay(self, delivery_id: str) -> Delivery:
        """Send an event again, with its id."""
        wanted = HttpRequest("POST", path("webhooks", "deliveries", delivery_id, "replay"))
        return self._transport.fetch(Delivery, wanted)

    def replay_all(self, *, webhook_id: str | None = None) -> int:
        """Send all undelivered events again, of one webhook if it is named. Returns the number of events."""
        replayed = 0
        while True:
            body = given(webhook_id=webhook_id)
            wanted = HttpRequest("POST", path("webhooks", "deliveries", "replay"), body=body)
            found = self._transport.fetch(Replayed, wanted)
            replayed += found.replayed
            if not found.more or not found.replayed:
                return replayed
