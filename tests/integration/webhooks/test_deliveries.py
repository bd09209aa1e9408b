"""Events reach a real receiver: signed, with one id whatever it answers, and in the end listed and sent again."""

import re
from datetime import UTC, datetime

import httpx
import pytest
from standardwebhooks import WebhookVerificationError
from temporalio.client import Client

from outlast.activities.webhooks.contracts import (
    DELIVERY_WORKFLOW,
    DeliveryInput,
    WebhookEvent,
    WebhookEventType,
    WebhookListener,
)
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from tests.integration.webhooks.conftest import ANN
from tests.support.calls.batches import carried_out, doubles
from tests.support.calls.histories import payloads_of
from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.calls.webhooks import deliveries, delivery_of, received, subscribed, verified
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.http.webhooks import Received, WebhookReceiver
from tests.support.stacks.service import Service

SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
CHILD_STARTED = "start_child_workflow_execution_initiated_event_attributes"
READ = {"tool": "get-actor-run", "arguments": {"runId": "absent"}}


async def test_a_subscription_hears_how_tasks_end_signed_with_the_secret_that_was_shown_once(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    webhook = await subscribed(api, receiver.url, "task.completed", "task.failed", "task.cancelled")
    done = (await completed(api, sleeper_call(0.1)))["task"]
    request = await received(receiver, done["id"])
    event = verified(request, webhook["secret"])
    assert event["type"] == "task.completed"
    assert event["data"]["status"] == "completed"
    assert event["data"]["tool"] == "call-actor"
    assert event["data"]["cost_usd"] == done["cost_usd"]
    assert (await api.get(event["data"]["links"]["result"])).json()["result"] is not None
    assert request.headers["content-type"] == "application/json"

    failed = (await completed(api, READ))["task"]
    event = verified(await received(receiver, failed["id"]), webhook["secret"])
    assert event["type"] == "task.failed"
    assert event["data"]["error"]["category"] == "not_found"

    task_id = await started(api, sleeper_call(60))
    await api.post(f"/v1/tasks/{task_id}/cancel")
    event = verified(await received(receiver, task_id), webhook["secret"])
    assert event["type"] == "task.cancelled"
    with pytest.raises(WebhookVerificationError):
        verified(request, SECRET)


async def test_the_result_can_be_read_as_soon_as_a_webhook_hears_of_it(
    api: httpx.AsyncClient, receiver: WebhookReceiver, service: Service
) -> None:
    seen: list[bool] = []

    def look(request: Received) -> None:
        link = request.body["data"]["links"]["result"]
        answer = httpx.get(f"{service.api_url}{link}", headers=bearer(ANN), trust_env=False, timeout=180).json()
        seen.append(answer.get("result") is not None and answer["task"]["status"] == "completed")

    receiver.on_arrival = look
    await subscribed(api, receiver.url, "task.completed")
    for _ in range(8):
        await received(receiver, await started(api, sleeper_call(0)))
    assert seen == [True] * 8


async def test_an_end_is_not_told_before_the_task_has_ended(
    api: httpx.AsyncClient, receiver: WebhookReceiver, temporal: Client
) -> None:
    webhook = await subscribed(api, receiver.url, "task.failed")
    task_id = await started(api, sleeper_call(60))
    kind = WebhookEventType.TASK_COMPLETED
    event = WebhookEvent(
        id="evt_early", type=kind, timestamp=datetime.now(UTC), subject=task_id, data={"task_id": task_id}
    )
    listener = WebhookListener(id=webhook["id"], events=(kind,))
    order = DeliveryInput(caller_id="key:ann", listener=listener, event=event, awaits_end=True)
    await temporal.start_workflow(DELIVERY_WORKFLOW, order, id=order.workflow_id, task_queue=TOOLS_TASK_QUEUE)
    await api.post(f"/v1/webhooks/{webhook['id']}/test")
    await received(receiver, webhook["id"])  # what was sent later has arrived
    assert "evt_early" not in {one.headers["webhook-id"] for one in receiver.received}
    await api.post(f"/v1/tasks/{task_id}/cancel")
    await received(receiver, task_id)


async def test_a_call_names_webhooks_of_its_own_and_no_history_holds_their_secrets(
    api: httpx.AsyncClient, receiver: WebhookReceiver, temporal: Client
) -> None:
    own = {"url": receiver.url, "secret": SECRET}
    body = sleeper_call(0.1) | {"options": {"webhooks": [own]}}
    task = (await completed(api, body, **{"Idempotency-Key": "with-own"}))["task"]
    request = await received(receiver, task["id"])
    assert verified(request, SECRET)["data"]["task_id"] == task["id"]

    delivery = await delivery_of(api, task["id"], "delivered")
    assert "webhook_id" not in delivery or delivery["webhook_id"] is None
    for workflow_id in (task["id"], delivery["id"]):
        history = await payloads_of(temporal, workflow_id)
        assert task["id"] in history
        assert SECRET not in history
        assert "theSecretOfTheWebhook" not in history

    again = await api.post("/v1/tasks", json=body, headers={"Idempotency-Key": "with-own"})
    assert again.json()["id"] == task["id"]
    elsewhere = body | {"options": {"webhooks": [own | {"url": receiver.url + "/elsewhere"}]}}
    other = await api.post("/v1/tasks", json=elsewhere, headers={"Idempotency-Key": "with-own"})
    assert other.status_code == 409, other.text


async def test_whatever_a_receiver_answers_an_event_keeps_its_id_until_it_is_taken(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    webhook = await subscribed(api, receiver.url, "task.completed")
    receiver.answers += [500, 0, 307, -1]
    task = (await completed(api, sleeper_call(0.1)))["task"]
    request = await received(receiver, task["id"], attempts=5)
    mine = [one for one in receiver.received if one.body["data"].get("task_id") == task["id"]]
    assert {one.headers["webhook-id"] for one in mine} == {request.headers["webhook-id"]}
    assert {one.path for one in mine} == {mine[0].path}, "a redirect was followed"
    assert [verified(one, webhook["secret"]) for one in mine] == [request.body] * 5
    delivery = await delivery_of(api, task["id"], "delivered")
    assert delivery["event_id"] == request.headers["webhook-id"]


async def test_what_was_not_delivered_is_listed_and_sent_again(
    api: httpx.AsyncClient, other: httpx.AsyncClient, receiver: WebhookReceiver, service: Service
) -> None:
    webhook = await subscribed(api, receiver.url, "task.completed")
    receiver.otherwise = 500
    first, second = [(await completed(api, sleeper_call(0.1)))["task"]["id"] for _ in range(2)]
    waiting = await delivery_of(api, first, "delivering", webhook_id=webhook["id"])

    async def tried() -> bool:
        seen = (await api.get(f"/v1/webhooks/deliveries/{waiting['id']}")).json()
        return seen["attempts"] >= 1 and seen.get("message") == "It answered 500."

    await eventually(tried)
    lost = await delivery_of(api, first, "undelivered", webhook_id=webhook["id"])
    assert lost["message"] == "It answered 500."
    await delivery_of(api, second, "undelivered", webhook_id=webhook["id"])
    assert {one["webhook_id"] for one in await deliveries(api, webhook_id=webhook["id"])} == {webhook["id"]}
    foreign = f"/v1/webhooks/deliveries/{lost['id']}"
    assert (await other.get(foreign)).status_code == 404
    assert (await other.post(f"{foreign}/replay")).status_code == 404
    assert (await other.get("/v1/webhooks/deliveries")).json()["deliveries"] == []

    receiver.otherwise = 200
    receiver.received.clear()
    replayed = await api.post(f"/v1/webhooks/deliveries/{lost['id']}/replay")
    assert replayed.status_code == 202, replayed.text
    request = await received(receiver, first)
    assert request.headers["webhook-id"] == lost["event_id"]
    assert verified(request, webhook["secret"])["type"] == "task.completed"
    await delivery_of(api, first, "delivered")

    rest = await api.post("/v1/webhooks/deliveries/replay", json={"webhook_id": webhook["id"]})
    assert rest.json() == {"replayed": 1, "more": False}
    await received(receiver, second)

    async def none_left() -> bool:
        return await deliveries(api, webhook_id=webhook["id"]) == []

    await eventually(none_left)
    assert len(receiver.received) == 2
    metrics = (await other.get(service.worker_metrics_url)).text
    for outcome in ("delivered", "undelivered"):
        assert re.search(rf'outlast_webhook_deliveries_total{{[^}}]*outcome="{outcome}"', metrics)
    assert re.search(r'outlast_webhook_attempts_total{[^}]*outcome="refused"', metrics)


async def test_events_for_a_webhook_that_was_removed_are_dropped(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    webhook = await subscribed(api, receiver.url, "task.completed")
    receiver.otherwise = 500
    task = (await completed(api, sleeper_call(0)))["task"]
    await received(receiver, task["id"])
    on_its_way = await delivery_of(api, task["id"], "delivering")
    await api.delete(f"/v1/webhooks/{webhook['id']}")

    async def dropped() -> bool:
        return (await api.get(f"/v1/webhooks/deliveries/{on_its_way['id']}")).json()["status"] == "dropped"

    await eventually(dropped)
    assert await deliveries(api, webhook_id=webhook["id"]) == []


async def test_a_receiver_that_answers_410_is_sent_nothing_more(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    webhook = await subscribed(api, receiver.url, "task.completed")
    receiver.otherwise = 410
    task = (await completed(api, sleeper_call(0.1)))["task"]
    await delivery_of(api, task["id"], "undelivered")

    async def is_off() -> bool:
        seen = (await api.get(f"/v1/webhooks/{webhook['id']}")).json()
        return not seen["enabled"] and "410" in seen["disabled_reason"]

    await eventually(is_off)
    assert len(receiver.received) == 1
    on = await api.patch(f"/v1/webhooks/{webhook['id']}", json={"enabled": True})
    assert on.json()["enabled"]
    assert "disabled_reason" not in on.json() or on.json()["disabled_reason"] is None


async def test_while_a_secret_is_rotated_both_sign(api: httpx.AsyncClient, receiver: WebhookReceiver) -> None:
    webhook = await subscribed(api, receiver.url, "task.completed")
    rotated = (await api.post(f"/v1/webhooks/{webhook['id']}/rotate", json={})).json()
    assert rotated["secret"] != webhook["secret"]
    assert rotated["old_secret_until"] is not None
    tested = await api.post(f"/v1/webhooks/{webhook['id']}/test")
    assert tested.status_code == 202, tested.text
    request = await received(receiver, webhook["id"])
    for secret in (webhook["secret"], rotated["secret"]):
        assert verified(request, secret)["type"] == "webhook.test"

    last = (await api.post(f"/v1/webhooks/{webhook['id']}/rotate", json={"grace_seconds": 0})).json()
    receiver.received.clear()
    await api.post(f"/v1/webhooks/{webhook['id']}/test")
    request = await received(receiver, webhook["id"])
    assert verified(request, last["secret"])
    with pytest.raises(WebhookVerificationError):
        verified(request, rotated["secret"])


async def test_a_task_that_waits_for_an_answer_says_so(api: httpx.AsyncClient, receiver: WebhookReceiver) -> None:
    await subscribed(api, receiver.url)
    task_id = await started(api, {"tool": "pick_colour", "arguments": {"colours": ["red", "blue"]}})
    asked = await received(receiver, task_id, "task.input_required")
    (question,) = asked.body["data"]["questions"]
    task = await asks(api, task_id)
    assert question["key"] in task["input_requests"]
    await taken(api, task, {"colour": "red"})
    await received(receiver, task_id, "task.completed")


async def test_a_run_that_has_spent_most_of_its_budget_is_told_of_once(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    await subscribed(api, receiver.url, "task.budget_near")
    cost = (await completed(api, sleeper_call(2)))["task"]["cost_usd"]
    body = sleeper_call(60) | {"options": {"budget": {"max_total_charge_usd": f"{cost:.7f}"}}}
    task_id = await started(api, body)
    near = (await received(receiver, task_id)).body["data"]
    assert near["cost_usd"] >= 0.8 * near["budget_usd"]
    await result_of(api, task_id)
    assert len([one for one in receiver.received if one.body["data"]["task_id"] == task_id]) == 1


async def test_a_batch_tells_of_its_rounds_and_its_end_and_of_items_where_that_is_asked_for(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    with_items = await subscribed(api, receiver.url, "task.completed", batch_items=True)
    without = await subscribed(api, f"{receiver.url}/batches", "task.completed", "batch.completed")
    own = {"url": f"{receiver.url}/own", "secret": SECRET}
    batch = await carried_out(api, doubles(3, webhooks=[own], name="threes"))
    for path in ("/batches", "/own"):

        def told(path: str = path):
            return [
                one for one in receiver.received if one.path.endswith(path) and one.body["type"] == "batch.completed"
            ]

        (event,) = await eventually(told)
        data = event.body["data"]
        assert (data["batch_id"], data["status"], data["completed"], data["total"]) == (batch["id"], "completed", 3, 3)
        assert (await api.get(data["links"]["results"])).status_code == 200

    def items():
        found = [one for one in receiver.received if one.body["data"].get("task_id")]
        return found if len(found) == 3 else None

    assert {one.path for one in await eventually(items)} == {receiver.url[receiver.url.index("/", 8) :]}
    assert with_items["id"] != without["id"]


async def test_calls_that_nobody_listens_to_cost_nothing_more(
    other: httpx.AsyncClient, api: httpx.AsyncClient, receiver: WebhookReceiver, temporal: Client
) -> None:
    await subscribed(api, receiver.url)
    quiet = (await completed(other, sleeper_call(0.1)))["task"]["id"]
    heard = (await completed(api, sleeper_call(0.1)))["task"]["id"]
    await received(receiver, heard)
    children: dict[str, int] = {}
    for task_id in (quiet, heard):
        events = (await temporal.get_workflow_handle(task_id).fetch_history()).events
        children[task_id] = sum(event.HasField(CHILD_STARTED) for event in events)
    assert children == {quiet: 0, heard: 1}


async def test_subscriptions_of_its_own_time_hear_of_a_run_that_goes_on(
    api: httpx.AsyncClient, receiver: WebhookReceiver
) -> None:
    """Not who was when the task began whose run it was."""
    gone = await subscribed(api, receiver.url, "task.completed")
    old = await started(api, sleeper_call(2))

    async def has_run() -> bool:
        return (await api.get(f"/v1/tasks/{old}")).json()["run"] is not None

    await eventually(has_run)
    await api.post(f"/v1/tasks/{old}/cancel")
    await eventually_ended(api, old)
    await api.delete(f"/v1/webhooks/{gone['id']}")
    webhook = await subscribed(api, receiver.url, "task.completed")
    new = (await api.post(f"/v1/tasks/{old}/resurrect", json={"force": True})).json()
    event = verified(await received(receiver, new["id"]), webhook["secret"])
    assert (event["type"], event["data"]["status"]) == ("task.completed", "completed")


async def eventually_ended(api: httpx.AsyncClient, task_id: str) -> None:
    async def has_ended() -> bool:
        return (await api.get(f"/v1/tasks/{task_id}")).json()["finished_at"] is not None

    await eventually(has_ended)
