"""An account that is full: a batch, single calls and another batch of the same caller get their turns."""

import httpx

from tests.support.calls.batches import begun, carried_out, ended, seen, sleepers
from tests.support.calls.tasks import completed, sleeper_call
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox

_FEW = 24
"""Twice as many as may wait for their run: lists lag behind."""


async def test_nobody_starves_while_a_batch_fills_the_account(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    sandbox.limit(concurrentRuns=2)
    large = await begun(api, sleepers(1_000, 0.5, concurrency=100))

    async def goes_on() -> int:
        batch = await seen(api, large)
        assert batch["completed"] >= 2, batch
        return batch["completed"]

    before = await eventually(goes_on)
    single = await completed(api, sleeper_call(0.1, message="in between"))
    assert single["task"]["status"] == "completed", single
    small = await carried_out(api, sleepers(3, 0.1))
    assert (small["status"], small["completed"]) == ("completed", 3), small

    async def gets_on_itself() -> bool:
        batch = await seen(api, large)
        assert batch["status"] == "working", "it was to be the one that takes long"
        assert batch["completed"] > before, batch
        return True

    await eventually(gets_on_itself)
    page = await api.get("/v1/tasks", params={"batch_id": large, "status": "working", "page_size": 200})
    waiting = [task for task in page.json()["tasks"] if task["run"] is None]
    assert 0 < len(waiting) <= _FEW, "of the hundred that may be under way, few compete with single calls"
    assert (await api.post(f"/v1/batches/{large}/cancel")).status_code == 202
    assert (await ended(api, large))["status"] == "cancelled"
    assert not sandbox.counters["runningNow"]
