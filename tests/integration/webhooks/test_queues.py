"""Receivers that hang or fail: what waits for them is limited, shown and never lost without a word."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.webhooks.contracts import RECHECK_SIGNAL, RecheckInput, queue_id
from tests.integration.webhooks.conftest import CALLERS, OTHERS, SETTINGS, TOOLS
from tests.support.calls.batches import carried_out, doubles
from tests.support.calls.webhooks import Json, deliveries, received, subscribed, verified
from tests.support.eventually import eventually
from tests.support.http.hostile_receiver import answering
from tests.support.http.webhooks import Received, WebhookReceiver, receiving_webhooks
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.service import Service

EVENTS = 40
MOST_TESTS = 3
"""As in `conftest.py`."""
MOST_WAITING_AT_FIRST = 28
"""Before the receiver has failed."""

service = service_fixture(scope="module", tools=TOOLS, callers=CALLERS, settings=SETTINGS)
"""Events wait for 72 hours, so that a slow machine does not give the first ones up while the others arrive."""
_unused = iter(OTHERS)


@pytest.fixture
def caller() -> str:
    """A caller of this test only: what waits for a webhook that was removed counts until it is dropped."""
    return next(_unused)


@pytest.fixture
async def api(service: Service, caller: str) -> AsyncIterator[httpx.AsyncClient]:
    async with service.http(OTHERS[caller]) as client:
        yield client


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
        return len(reasons) >= EVENTS - MOST_WAITING_AT_FIRST

    await eventually(too_many, interval_seconds=0.1)
    listed_ones = [one["id"] for status in ("delivering", "undelivered") for one in await listed(status)]
    assert len(set(listed_ones)) == EVENTS
    backlog = (await api.get(f"/v1/webhooks/{webhook['id']}")).json()["backlog"]
    assert backlog["events"] <= MOST_WAITING_AT_FIRST
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

    await eventually(lambda: _waits(api, webhook["id"], "It answered 503."))
    receiver.otherwise = 200
    await api.patch(f"/v1/webhooks/{webhook['id']}", json={"url": f"{receiver.url}/new"})
    assert (await received(receiver, webhook["id"], attempts=2)).path.endswith("/new")


async def test_a_change_of_a_webhook_while_its_receiver_is_being_probed_tries_it_again_after_that(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    is_probed, is_changed = threading.Event(), threading.Event()
    receiver.answers = [503]

    def hold(_: Received) -> None:
        if len(receiver.received) == 1:
            is_probed.set()
            is_changed.wait()
            # The answer of a receiver that does not know of the change yet.
            receiver.answers, receiver.retry_after = [503], "3600"

    receiver.on_arrival = hold
    webhook = await subscribed(api, receiver.url)
    try:
        await api.post(f"/v1/webhooks/{webhook['id']}/test")
        await eventually(is_probed.is_set)
        await api.patch(f"/v1/webhooks/{webhook['id']}", json={"enabled": True})
    finally:
        is_changed.set()
    await received(receiver, webhook["id"], attempts=3)


async def test_a_queue_whose_last_event_arrives_when_its_history_is_long_ends(
    api: httpx.AsyncClient, receiver: WebhookReceiver, temporal: Client, caller: str
) -> None:
    is_probed, may_answer = threading.Event(), threading.Event()
    receiver.answers = [503]

    def hold(_: Received) -> None:
        if len(receiver.received) == 1:
            is_probed.set()
            may_answer.wait()

    receiver.on_arrival = hold
    webhook = await subscribed(api, receiver.url)
    queue = temporal.get_workflow_handle(queue_id(f"key:{caller}"))
    try:
        await api.post(f"/v1/webhooks/{webhook['id']}/test")
        await eventually(is_probed.is_set)
        for _ in range(100):  # the server suggests a new history at so many events
            await queue.signal(RECHECK_SIGNAL, RecheckInput(receiver="another", now=datetime.now(UTC)))
    finally:
        may_answer.set()
    await asyncio.wait_for(queue.result(), 60)


async def test_a_receiver_that_fails_leaves_room_for_another_one(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    with receiving_webhooks() as failing:
        failing.otherwise = 503
        webhook = await subscribed(api, failing.url, "task.completed", batch_items=True)
        other = await subscribed(api, receiver.url, "webhook.test")
        await carried_out(api, doubles(EVENTS))

        async def is_full() -> bool:
            lost = await deliveries(api, "undelivered", webhook_id=webhook["id"])
            return any("webhook_deliveries" in one["message"] for one in lost)

        await eventually(is_full, interval_seconds=0.1)
        assert (await api.post(f"/v1/webhooks/{other['id']}/test")).status_code == 202
        await received(receiver, other["id"])


async def test_what_waits_for_a_receiver_that_knows_no_secret_is_tried_when_the_secret_is_rotated(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise, receiver.retry_after = 401, "3600"
    webhook = await subscribed(api, receiver.url)
    await api.post(f"/v1/webhooks/{webhook['id']}/test")
    await eventually(lambda: _waits(api, webhook["id"], "It answered 401."))
    receiver.otherwise = 200
    rotated = (await api.post(f"/v1/webhooks/{webhook['id']}/rotate", json={"grace_seconds": 0})).json()
    verified(await received(receiver, webhook["id"], attempts=2), rotated["secret"])


async def test_a_receiver_that_asks_for_a_pause_by_a_date_is_left_alone_until_then(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise, receiver.retry_after = 429, format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    webhook = await subscribed(api, receiver.url)
    await api.post(f"/v1/webhooks/{webhook['id']}/test")
    backlog = await eventually(lambda: _waits(api, webhook["id"], "It answered 429."))
    assert datetime.fromisoformat(backlog["next_attempt_at"]) > datetime.now(UTC) + timedelta(minutes=90)


async def test_a_receiver_that_wants_no_more_events_ends_all_that_wait(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    receiver.otherwise, receiver.retry_after = 503, "3600"
    webhook = await subscribed(api, receiver.url, "task.completed", batch_items=True)
    await carried_out(api, doubles(20))
    await eventually(lambda: _waits(api, webhook["id"], "It answered 503.", events=20))
    receiver.otherwise = 410
    await api.patch(f"/v1/webhooks/{webhook['id']}", json={"name": "tried at once"})

    async def all_ended() -> bool:
        found = await deliveries(api, "undelivered", webhook_id=webhook["id"])
        return len(found) == 20 and {one["message"] for one in found} == {"It answered 410: it wants no more events."}

    await eventually(all_ended, interval_seconds=0.1)
    shown = (await api.get(f"/v1/webhooks/{webhook['id']}")).json()
    assert (shown["enabled"], "410" in shown["disabled_reason"], shown.get("backlog")) == (False, True, None)


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


async def test_receivers_that_answer_anything_hold_no_events_for_another_one_up(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000
    drips = answering(b"HTTP/1.1 200 OK\r\nx: ", b"x", pause_seconds=0.05)
    moved = answering(b"HTTP/1.1 308 Elsewhere\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
    async with answering(rest=interim) as endless, drips as slow, moved as elsewhere, answering(resets=True) as reset:
        reasons = {
            endless.url: "It sent more than 32 KB before its answer was complete.",
            slow.url: "It did not answer within 1 seconds.",
            elsewhere.url: "It answered 308: redirects are not followed.",
            reset.url: "The connection failed (ReadError).",
        }
        hostile = [await subscribed(api, url, "task.completed", batch_items=True) for url in reasons]
        await subscribed(api, receiver.url, "task.completed", batch_items=True)
        await carried_out(api, doubles(5))
        await eventually(lambda: len(receiver.received) == 5)
        for webhook in hostile:
            await eventually(lambda webhook=webhook: _has_reason(api, webhook["id"], reasons[webhook["url"]]))


async def _waits(api: httpx.AsyncClient, webhook_id: str, message: str, *, events: int = 1) -> Json | None:
    """The backlog of a webhook, when so many events wait and the latest attempt ended so."""
    backlog = (await api.get(f"/v1/webhooks/{webhook_id}")).json().get("backlog")
    return backlog if backlog and (backlog["events"], backlog.get("message")) == (events, message) else None


async def _has_reason(api: httpx.AsyncClient, webhook_id: str, message: str) -> bool:
    """Whether this is why events for a webhook wait, or were given up."""
    backlog = (await api.get(f"/v1/webhooks/{webhook_id}")).json().get("backlog") or {}
    lost = await deliveries(api, "undelivered", webhook_id=webhook_id)
    return message in [backlog.get("message"), *(one["message"] for one in lost)]
