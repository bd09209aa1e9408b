"""`kill -9` around a firing: fired once, paid once, whatever dies before, during and after the start."""

import asyncio
import time
from datetime import datetime
from typing import Any

import httpx

from tests.support.calls.schedules import NEVER
from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos

Json = dict[str, Any]


async def scheduled(chaos: Chaos, schedule_id: str, seconds: float, **more: Any) -> None:
    call = {"tool": "outlast--sleeper", "arguments": {"seconds": seconds}}
    answer = await chaos.http.post("/v1/schedules", json={"id": schedule_id, "call": call, **NEVER, **more})
    assert answer.status_code == 201, answer.text


async def triggered(chaos: Chaos, schedule_id: str) -> None:
    answer = await chaos.http.post(f"/v1/schedules/{schedule_id}/trigger")
    assert answer.status_code == 202, answer.text


async def firing(chaos: Chaos, schedule_id: str, *, until: set[str]) -> Json:
    """The only firing of a schedule, once it is in one of these states; meanwhile the API may be away."""

    async def there() -> Json:
        try:
            answer = await chaos.http.get(f"/v1/schedules/{schedule_id}")
        except httpx.HTTPError as error:
            raise AssertionError(repr(error)) from error
        assert answer.is_success, answer.text
        (only,) = answer.json()["recent"] or [{"status": None}]
        assert only["status"] in until, only
        return only

    return await eventually(there, 240, 0.1)


async def test_a_firing_outlives_api_worker_and_server_and_is_paid_once(chaos: Chaos) -> None:
    """Killed in turn: the API while it starts the task, the worker while it awaits it, and Temporal."""
    await scheduled(chaos, "killed", 6)
    chaos.stack.worker.kill()
    await triggered(chaos, "killed")
    await firing(chaos, "killed", until={"starting"})
    chaos.stack.worker.start()
    await asyncio.gather(chaos.stack.api.restart(), chaos.stack.worker.ready())
    begun = await firing(chaos, "killed", until={"working"})
    await chaos.stack.worker.restart()
    await chaos.stack.api.restart()
    await chaos.stack.temporal.restart()
    await chaos.stack.bring_up()
    done = await firing(chaos, "killed", until={"completed"})
    assert (done["id"], done["task_id"]) == (begun["id"], begun["task_id"])
    assert done["cost_usd"] == chaos.sandbox.run((await chaos.task(done["task_id"]))["run"]["run_id"])["usageTotalUsd"]
    chaos.expect_one_run_per_task(tasks=1)


async def test_what_is_due_while_no_api_is_alive_waits_for_one(chaos: Chaos) -> None:
    """The first APIs that come are killed as soon as they answer, wherever the firing is then: one task, paid once."""
    due = round(time.time()) + 10
    await scheduled(chaos, "waiting", 0.5, cron=[], every=[{"seconds": 3600, "offset_seconds": due % 3600}])
    chaos.stack.api.kill()
    await eventually(lambda: time.time() > due, interval_seconds=0.5)
    for _ in range(3):
        await chaos.stack.api.restart()
    done = await firing(chaos, "waiting", until={"completed"})
    assert datetime.fromisoformat(done["scheduled_at"]).timestamp() == due
    assert (await chaos.http.delete("/v1/schedules/waiting")).status_code == 204
    chaos.expect_one_run_per_task(tasks=1)


async def test_what_was_due_while_temporal_was_dead_is_made_up_for_once(chaos: Chaos) -> None:
    """An interval, of which one begins while the server is dead: it is caught up with, and fires once."""
    due = round(time.time()) + 10
    await scheduled(chaos, "caught-up", 0.2, cron=[], every=[{"seconds": 3600, "offset_seconds": due % 3600}])
    chaos.stack.temporal.kill()
    await eventually(lambda: time.time() > due, interval_seconds=0.5)
    await chaos.stack.bring_up()
    done = await firing(chaos, "caught-up", until={"completed"})
    assert datetime.fromisoformat(done["scheduled_at"]).timestamp() == due
    assert (await chaos.http.delete("/v1/schedules/caught-up")).status_code == 204
    chaos.expect_one_run_per_task(tasks=1)
