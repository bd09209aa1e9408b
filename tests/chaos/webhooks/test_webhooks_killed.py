"""`kill -9` of a receiver, and of the worker that posts to it: each event arrives, with one id, signed."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.deploy.local.processes import answers_http
from tests.support.calls.webhooks import Json, deliveries, delivery_of, subscribed, verified
from tests.support.eventually import eventually
from tests.support.http.webhooks import Received
from tests.support.ports import free_port
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import Part, starting

QUICK = {
    "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
    "OUTLAST_WEBHOOK_FIRST_PAUSE_SECONDS": "0.5",
    # Long enough for a busy machine: an event that fails again after others were delivered comes out of order.
    "OUTLAST_WEBHOOK_TIMEOUT_SECONDS": "5",
}
EVENTS = 40


class MortalReceiver:
    """A receiver in a process of its own, on a port of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.file = folder / "received.jsonl"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/hooks"
        start = starting("tests.support.http.webhook_receiver", environment, str(port), str(self.file))
        self.part = Part("receiver", start, answers_http(f"http://127.0.0.1:{port}/"), folder)

    def received(self) -> list[Received]:
        """What it has taken."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        found = [json.loads(line) for line in lines]
        return [Received(one["path"], one["headers"], json.loads(one["raw"]), one["raw"].encode()) for one in found]

    def about(self, task_id: str) -> list[Received]:
        """What it has taken about a task."""
        return [one for one in self.received() if one.body["data"].get("task_id") == task_id]

    async def hears_of(self, task_id: str) -> Received:
        """The first request about a task that it has taken."""
        return (await eventually(lambda: self.about(task_id), interval_seconds=0.1))[0]


@pytest.fixture
async def receiver(chaos: Chaos, tmp_path: Path) -> AsyncIterator[MortalReceiver]:
    """A receiver, and a stack that may post to this machine."""
    stack = chaos.stack
    for part, renew in ((stack.worker, stack.renew_worker), (stack.api, stack.renew_api)):
        part.kill()
        renew(**QUICK)
    await stack.bring_up()
    receiver = MortalReceiver(tmp_path, stack.environment())
    receiver.part.start()
    await receiver.part.ready()
    yield receiver
    receiver.part.kill()
    await chaos.stack.bring_up()
    for webhook in (await chaos.http.get("/v1/webhooks")).json()["webhooks"]:
        await chaos.http.delete(f"/v1/webhooks/{webhook['id']}")


async def test_a_receiver_that_dies_hears_of_everything_when_it_is_back(chaos: Chaos, receiver: MortalReceiver) -> None:
    webhook = await subscribed(chaos.http, receiver.url, "task.completed")
    receiver.part.kill()
    tasks = [await chaos.start(seconds=0.1) for _ in range(3)]
    tried = [await _tried(chaos, task_id) for task_id in tasks]
    receiver.part.start()
    await receiver.part.ready()
    for task_id, delivery in zip(tasks, tried, strict=True):
        request = await receiver.hears_of(task_id)
        assert verified(request, webhook["secret"])["data"]["status"] == "completed"
        assert request.headers["webhook-id"] == delivery["event_id"]


async def test_an_event_outlives_the_worker_that_posts_it(chaos: Chaos, receiver: MortalReceiver) -> None:
    webhook = await subscribed(chaos.http, receiver.url, "task.completed")
    silence, asked = (receiver.file.with_suffix(suffix) for suffix in (".silent", ".asked"))
    silence.touch()
    task_id = await chaos.start(seconds=0.1)
    await eventually(asked.exists)  # the worker is in the middle of it
    chaos.stack.worker.kill()
    silence.unlink()
    chaos.stack.worker.start()
    await chaos.stack.worker.ready()
    request = await receiver.hears_of(task_id)
    assert verified(request, webhook["secret"])["data"]["task_id"] == task_id
    assert request.headers["webhook-id"] == json.loads(asked.read_text().splitlines()[0])["headers"]["webhook-id"]
    await delivery_of(chaos.http, task_id, "delivered")


async def test_events_for_a_receiver_that_hangs_cost_few_attempts_and_arrive_in_order_after_kills(
    chaos: Chaos, receiver: MortalReceiver
) -> None:
    webhook = await subscribed(chaos.http, receiver.url, "task.failed")
    silence, asked = (receiver.file.with_suffix(suffix) for suffix in (".silent", ".asked"))
    silence.touch()
    calls = (chaos.start_call("get-actor-run", runId=f"absent{number}") for number in range(EVENTS))
    tasks = await asyncio.gather(*calls)

    async def all_wait() -> Json | None:
        found = await deliveries(chaos.http, "delivering", webhook_id=webhook["id"])
        backlog = (await chaos.http.get(f"/v1/webhooks/{webhook['id']}")).json().get("backlog") or {}
        attempts = [one.get("attempts") for one in found]
        # A second attempt is a probe: rounds that began before there were all events are over.
        wait = len(found) == EVENTS and None not in attempts and any((one or 0) > 1 for one in attempts)
        return found[0] if wait and backlog.get("failing_since") else None

    waiting = await eventually(all_wait, 300, interval_seconds=0.2)
    seen = (await chaos.http.get(f"/v1/webhooks/deliveries/{waiting['id']}")).json()
    assert "did not answer" in seen["message"]
    assert seen["next_attempt_at"] is not None
    assert len(asked.read_text().splitlines()) < EVENTS, "waiting events are tried again and again"

    for part in (chaos.stack.worker, chaos.stack.temporal):
        part.kill()
    paused = receiver.file.with_suffix(".paused")
    paused.touch()
    silence.unlink()
    await chaos.stack.bring_up()
    # The pauses between attempts have doubled for as long as the events were awaited above.
    await eventually(receiver.received, 400, interval_seconds=0.01)
    chaos.stack.worker.kill()  # while the events are being delivered
    paused.unlink()
    await chaos.stack.bring_up()
    for task_id in tasks:
        await receiver.hears_of(task_id)
    times = {one.headers["webhook-id"]: one.body["timestamp"] for one in receiver.received()}
    assert len(times) == EVENTS
    late = [(sorted(times.values()).index(one), one) for one in times.values()]
    assert list(times.values()) == sorted(times.values()), late
    for task_id in tasks:
        await delivery_of(chaos.http, task_id, "delivered")


async def _tried(chaos: Chaos, task_id: str) -> Json:
    """The delivery of a task's event, after an attempt that failed."""
    delivery = await delivery_of(chaos.http, task_id, "delivering")

    async def failed() -> Json | None:
        seen = (await chaos.http.get(f"/v1/webhooks/deliveries/{delivery['id']}")).json()
        return seen if "failed" in (seen.get("message") or "") else None

    return await eventually(failed, interval_seconds=0.1)
