"""Webhooks: subscribe them, look at them, rotate their secrets; see what was not delivered, and send it again."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pydantic import JsonValue

from outlast.client.contracts.webhooks import Delivery, DeliveryPage, Replayed, Webhook, WebhookList
from outlast.client.errors import NotFound
from outlast.client.flows.commands import Emitting, Flow, HttpRequest, Item
from outlast.client.flows.requests import Body, given
from outlast.client.flows.server import Attempts, Server, request
from outlast.client.problems import parsed

PAGE_SIZE = 200
_ROOT = "/v1/webhooks"


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries are wanted: those that stand so, of one webhook if it is named."""

    status: str = "undelivered"
    webhook_id: str | None = None


def settings(
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    name: str | None = None,
    batch_items: bool | None = None,
    enabled: bool | None = None,
    secret: str | None = None,
) -> Body:
    """A webhook, or changes of one: what is given."""
    chosen: list[JsonValue] | None = None if events is None else [*events]
    return given(url=url, events=chosen, name=name, batch_items=batch_items, enabled=enabled, secret=secret)


def create(server: Server, body: Body, idempotency_key: str | None) -> Flow[Webhook]:
    """Subscribe a webhook. A lost answer never makes two."""
    headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
    response = yield from request(server, HttpRequest("POST", _ROOT, headers=headers, body=body))
    return parsed(Webhook, response, server.url)


def listed(server: Server) -> Flow[WebhookList]:
    """All webhooks."""
    return parsed(WebhookList, (yield from request(server, HttpRequest("GET", _ROOT))), server.url)


def get(server: Server, webhook_id: str) -> Flow[Webhook]:
    """One webhook."""
    return parsed(Webhook, (yield from request(server, HttpRequest("GET", _path(webhook_id)))), server.url)


def update(server: Server, webhook_id: str, changes: Body) -> Flow[Webhook]:
    """Change a webhook."""
    response = yield from request(server, HttpRequest("PATCH", _path(webhook_id), body=changes))
    return parsed(Webhook, response, server.url)


def delete(server: Server, webhook_id: str) -> Flow[None]:
    """Remove a webhook. When an earlier attempt was lost, one that is gone is no error."""
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        yield from request(server, HttpRequest("DELETE", _path(webhook_id)), attempts)
    except NotFound:
        if not attempts.may_have_arrived:
            raise


def rotate(server: Server, webhook_id: str, grace_seconds: float | None, secret: str | None) -> Flow[Webhook]:
    """Give a webhook a new secret."""
    seconds = None if grace_seconds is None else round(grace_seconds)
    body = given(grace_seconds=seconds, secret=secret)
    response = yield from request(server, HttpRequest("POST", f"{_path(webhook_id)}/rotate", body=body))
    return parsed(Webhook, response, server.url)


def test(server: Server, webhook_id: str) -> Flow[Delivery]:
    """Send a test."""
    response = yield from request(server, HttpRequest("POST", f"{_path(webhook_id)}/test"))
    return parsed(Delivery, response, server.url)


def page(server: Server, wanted: DeliveryFilter, page_size: int, page_token: str | None) -> Flow[DeliveryPage]:
    """One page of deliveries."""
    values = {
        "status": wanted.status,
        "webhook_id": wanted.webhook_id,
        "page_size": str(page_size),
        "page_token": page_token,
    }
    params = tuple((name, value) for name, value in values.items() if value is not None)
    response = yield from request(server, HttpRequest("GET", f"{_ROOT}/deliveries", params=params))
    return parsed(DeliveryPage, response, server.url)


def deliveries(server: Server, wanted: DeliveryFilter, limit: int | None) -> Emitting[Delivery]:
    """The deliveries, page by page as they are read, `limit` at most."""
    left, token = limit, None
    while left is None or left > 0:
        found = yield from page(server, wanted, min(left or PAGE_SIZE, PAGE_SIZE), token)
        for delivery in found.deliveries[:left]:
            yield Item(delivery)
        left = None if left is None else left - len(found.deliveries)
        token = found.next_page_token
        if token is None:
            return


def delivery(server: Server, delivery_id: str) -> Flow[Delivery]:
    """One delivery."""
    return parsed(Delivery, (yield from request(server, HttpRequest("GET", _delivery(delivery_id)))), server.url)


def replay(server: Server, delivery_id: str) -> Flow[Delivery]:
    """Send an event again."""
    response = yield from request(server, HttpRequest("POST", f"{_delivery(delivery_id)}/replay"))
    return parsed(Delivery, response, server.url)


def replay_all(server: Server, webhook_id: str | None) -> Flow[int]:
    """Send everything that was not delivered again; how many events that is."""
    replayed = 0
    while True:
        wanted = HttpRequest("POST", f"{_ROOT}/deliveries/replay", body=given(webhook_id=webhook_id))
        found = parsed(Replayed, (yield from request(server, wanted)), server.url)
        replayed += found.replayed
        if not found.more or not found.replayed:
            return replayed


def _path(webhook_id: str) -> str:
    return f"{_ROOT}/{quote(webhook_id, safe='')}"


def _delivery(delivery_id: str) -> str:
    return f"{_ROOT}/deliveries/{quote(delivery_id, safe='')}"
