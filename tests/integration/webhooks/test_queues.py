"""Receivers that hang or fail: what waits for them is limited, shown and never lost without a word."""

import asyncio

import httpx

from tests.support.calls.batches import carried_out, doubles
from tests.support.calls.webhooks import Json, deliveries, received, subscribed
from tests.support.eventually import eventually
from tests.support.http.webhooks import WebhookReceiver, receiving_webhooks

EVENTS = 40
MOST_WAITING, MOST_TESTS = 25, 3
"""As in `conftest.py`."""


async def test_tests_that_are_being_delivered_are_limited_also_in_a_race(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = -1
    webhook = await subscribed(api, receiver.url)
    path = f"/v1/webhooks/{webhook['id']}/test"
    answers = await asyncio.gather(*(api.post(path) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [202] * MOST_TESTS + [429] * (10 - MOST_TESTS)
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert "webhook_tests" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) > 0
    assert len(await deliveries(api, "delivering", webhook_id=webhook["id"])) <= MOST_TESTS


async def test_events_beyond_what_may_wait_are_listed_with_the_reason_and_can_be_sent_again(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = -1
    webhook = await subscribed(api, receiver.url, "task.completed", batch_items=True)
    await carried_out(api, doubles(EVENTS))

    async def listed(status: str) -> list[Json]:
        return await deliveries(api, status, webhook_id=webhook["id"], page_size="200")

    async def too_many() -> bool:
        lost = await listed("undelivered")
        reasons = [one["message"] for one in lost if "webhook_deliveries" in one["message"]]
        return len(reasons) >= EVENTS - MOST_WAITING

    await eventually(too_many, interval_seconds=0.1)
    assert len(await listed("delivering")) + len(await listed("undelivered")) == EVENTS
    backlog = (await api.get(f"/v1/webhooks/{webhook['id']}")).json()["backlog"]
    assert backlog["events"] <= MOST_WAITING
    (shown,) = (await api.get("/v1/webhooks")).json()["webhooks"]
    assert shown["backlog"]["message"] == backlog["message"]

    receiver.otherwise = 200
    receiver.received.clear()

    async def all_arrived() -> bool:
        await api.post("/v1/webhooks/deliveries/replay", json={"webhook_id": webhook["id"]})
        return len({one.headers["webhook-id"] for one in receiver.received}) == EVENTS

    await eventually(all_arrived, interval_seconds=0.5)


async def test_what_waits_for_a_receiver_goes_to_its_new_address_at_once(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = 503
    receiver.retry_after = "3600"
    webhook = await subscribed(api, receiver.url)
    await api.post(f"/v1/webhooks/{webhook['id']}/test")

    async def waits() -> bool:
        backlog = (await api.get(f"/v1/webhooks/{webhook['id']}")).json().get("backlog")
        return backlog is not None and backlog["message"] == "It answered 503."

    await eventually(waits)
    receiver.otherwise = 200
    await api.patch(f"/v1/webhooks/{webhook['id']}", json={"url": f"{receiver.url}/new"})
    assert (await received(receiver, webhook["id"], attempts=2)).path.endswith("/new")


async def test_what_waits_for_a_webhook_that_is_removed_is_dropped_at_once(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = 503
    receiver.retry_after = "3600"
    webhook = await subscribed(api, receiver.url)
    delivery = (await api.post(f"/v1/webhooks/{webhook['id']}/test")).json()["id"]

    async def is_held() -> bool:
        return "503" in ((await api.get(f"/v1/webhooks/deliveries/{delivery}")).json().get("message") or "")

    await eventually(is_held)
    await api.delete(f"/v1/webhooks/{webhook['id']}")

    async def is_dropped() -> bool:
        return (await api.get(f"/v1/webhooks/deliveries/{delivery}")).json()["status"] == "dropped"

    await eventually(is_dropped)


async def test_a_receiver_that_hangs_holds_no_events_for_another_one_up(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    with receiving_webhooks() as silent:
        silent.otherwise = -1
        webhook = await subscribed(api, silent.url, "task.completed", batch_items=True)
        await subscribed(api, receiver.url, "task.completed", batch_items=True)
        await carried_out(api, doubles(20))
        await eventually(lambda: len(receiver.received) == 20)
        assert await deliveries(api, "delivered", webhook_id=webhook["id"]) == []
