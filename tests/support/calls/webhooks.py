"""Webhooks as tests subscribe them, and events as a receiver verifies them, with the specification's own library."""

from typing import Any

import httpx
from standardwebhooks import Webhook

from tests.support.eventually import eventually
from tests.support.http.webhooks import Received, WebhookReceiver

Json = dict[str, Any]


async def subscribed(api: httpx.AsyncClient, url: str, *events: str, **more: Any) -> Json:
    """A webhook just made, with its secret."""
    response = await api.post("/v1/webhooks", json={"url": url, "events": list(events), **more})
    assert response.status_code == 201, response.text
    return response.json()


def verified(request: Received, secret: str) -> Json:
    """The event of a request. Raises `WebhookVerificationError`."""
    return Webhook(secret).verify(request.raw, request.headers)


async def received(receiver: WebhookReceiver, subject: str, kind: str | None = None, *, attempts: int = 1) -> Received:
    """The latest request with an event about a task or batch, when there were so many."""

    def arrived() -> Received | None:
        found = [one for one in receiver.received if about(one, subject) and kind in (None, one.body["type"])]
        assert len(found) >= attempts, [one.body for one in receiver.received]
        return found[-1]

    return await eventually(arrived)


def about(request: Received, subject: str) -> bool:
    """Whether an event is about a task, a batch or a webhook."""
    data = request.body["data"]
    return subject in (data.get("task_id"), data.get("webhook_id")) or (
        "task_id" not in data and data.get("batch_id") == subject
    )


async def deliveries(api: httpx.AsyncClient, status: str = "undelivered", **more: str) -> list[Json]:
    """The caller's deliveries that stand so."""
    response = await api.get("/v1/webhooks/deliveries", params={"status": status, **more})
    assert response.status_code == 200, response.text
    return response.json()["deliveries"]


async def delivery_of(api: httpx.AsyncClient, subject: str, status: str, **more: str) -> Json:
    """The delivery of an event about a task or batch, when it stands so."""

    async def there() -> Json | None:
        found = [one for one in await deliveries(api, status, **more) if one.get("subject") == subject]
        return found[0] if found else None

    return await eventually(there, interval_seconds=0.1)
