"""Schedules: what they start, when they are due, and what is told of it."""

import httpx
import pytest
from temporalio.client import Client

from tests.support.calls.schedules import fired, firings, scheduled, seen, triggered
from tests.support.eventually import eventually

DOUBLE = {"tool": "double", "arguments": {"number": 21}}


def sleeper(seconds: float = 0) -> dict:
    return {"tool": "outlast--sleeper", "arguments": {"seconds": seconds}}


async def test_a_schedule_starts_a_task_that_lists_find(api: httpx.AsyncClient) -> None:
    made = await scheduled(api, "doubles", call=DOUBLE, note="for the test")
    assert (made["tool"], made["call"], made["paused"]) == ("double", DOUBLE, False)
    assert (made["recent"], made["fired"]) == ([], 0)
    firing = await fired(api, "doubles")
    assert (firing["status"], firing["cost_usd"]) == ("completed", 0.0)
    result = (await api.get(f"/v1/tasks/{firing['task_id']}/result")).json()
    assert (result["result"]["structured"], result["task"]["schedule_id"]) == ({"doubled": 42}, "doubles")
    second = await fired(api, "doubles")
    assert second["task_id"] != firing["task_id"]

    async def listed() -> list:
        tasks = (await api.get("/v1/tasks", params={"schedule_id": "doubles"})).json()["tasks"]
        assert {task["id"] for task in tasks} == {firing["task_id"], second["task_id"]}
        return tasks

    await eventually(listed)
    schedule = await seen(api, "doubles")
    assert [one["task_id"] for one in schedule["recent"]] == [second["task_id"], firing["task_id"]]
    assert (schedule["fired"], schedule["spent_usd"]) == (2, 0.0)
    assert (await api.delete("/v1/schedules/doubles")).status_code == 204
    assert (await api.get("/v1/schedules/doubles")).status_code == 404
    assert (await api.get(f"/v1/tasks/{firing['task_id']}")).status_code == 200


async def test_a_schedule_starts_batches_whose_items_lists_find(api: httpx.AsyncClient) -> None:
    items = [{"key": key, "arguments": {"number": number}} for number, key in enumerate(("a", "b", "c"))]
    await scheduled(api, "batches", batch={"tool": "double", "items": items, "concurrency": 2})
    firing = await fired(api, "batches")
    assert firing["status"] == "completed", firing
    batch = (await api.get(f"/v1/batches/{firing['batch_id']}")).json()
    assert (batch["completed"], batch["schedule_id"]) == (3, "batches")

    async def found() -> bool:
        batches = (await api.get("/v1/batches", params={"schedule_id": "batches"})).json()["batches"]
        tasks = (await api.get("/v1/tasks", params={"schedule_id": "batches"})).json()["tasks"]
        assert [one["id"] for one in batches] == [batch["id"]]
        assert {(one["batch_id"], one["tool"]) for one in tasks} == {(batch["id"], "double")}
        assert len(tasks) == 3
        return True

    await eventually(found)


async def test_a_schedule_is_due_by_its_times(api: httpx.AsyncClient) -> None:
    """An interval of a minute, of which the next one begins shortly."""
    now = await _server_seconds(api)
    await scheduled(api, "minutely", call=DOUBLE, every=[{"seconds": 60, "offset_seconds": (now + 4) % 60}])
    (firing,) = await firings(api, "minutely", 1)
    assert firing["status"] == "completed"
    assert (await api.delete("/v1/schedules/minutely")).status_code == 204


async def _server_seconds(api: httpx.AsyncClient) -> int:
    from email.utils import parsedate_to_datetime

    return int(parsedate_to_datetime((await api.get("/healthz")).headers["date"]).timestamp())
