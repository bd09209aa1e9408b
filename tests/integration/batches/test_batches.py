"""A batch from its items to its results: each item is a task, each has one row, nothing is paid twice."""

import httpx

from tests.support.calls.batches import begun, carried_out, doubles, ended, rows_of, seen, sleepers
from tests.support.stacks.sandbox import Sandbox


async def test_each_item_is_a_task_and_has_one_row(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, doubles(30, name="thirty", concurrency=7))
    assert (batch["status"], batch["total"], batch["completed"], batch["failed"]) == ("completed", 30, 30, 0)
    assert (batch["under_way"], batch["waiting"], batch["name"], batch["tool"]) == (0, 0, "thirty", "double")
    rows = await rows_of(api, batch["id"])
    assert sorted(row["key"] for row in rows) == sorted(f"n{number}" for number in range(30))
    assert {row["key"]: row["result"]["doubled"] for row in rows} == {f"n{n}": 2 * n for n in range(30)}
    listed = (await api.get("/v1/tasks", params={"batch_id": batch["id"], "page_size": 50})).json()["tasks"]
    assert {task["id"] for task in listed} == {row["task_id"] for row in rows}
    assert {task["batch_id"] for task in listed} == {batch["id"]}
    task = (await api.get(f"/v1/tasks/{rows[0]['task_id']}/result")).json()
    assert task["result"]["structured"]["doubled"] == rows[0]["result"]["doubled"]


async def test_runs_of_an_actor_are_started_once_and_their_rows_are_there(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    before = sandbox.counters["startsAccepted"]
    batch = await carried_out(api, sleepers(12, concurrency=5))
    assert (batch["completed"], batch["rows"]) == (12, 12)
    assert sandbox.counters["startsAccepted"] - before == 12
    rows = await rows_of(api, batch["id"])
    assert {row["key"]: row["items"][0]["message"] for row in rows} == {f"s{n}": f"item {n}" for n in range(12)}
    assert len({row["run_id"] for row in rows}) == 12
    assert batch["cost_usd"] == round(sum(row["cost_usd"] for row in rows), 9)


async def test_a_batch_that_is_sent_twice_is_one_batch(api: httpx.AsyncClient) -> None:
    body, key = doubles(5), {"Idempotency-Key": "twice"}
    first = await begun(api, body, **key)
    assert await begun(api, body, **key) == first
    await ended(api, first)
    assert await begun(api, body, **key) == first
    assert len(await rows_of(api, first)) == 5
    other = await api.post("/v1/batches", json=doubles(6), headers=key)
    assert (other.status_code, other.json()["type"]) == (409, "urn:outlast:problem:idempotency-key-reused")


async def test_rows_come_in_the_given_order_when_that_is_asked(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, doubles(40, order="given", concurrency=9))
    assert [row["index"] for row in await rows_of(api, batch["id"])] == list(range(40))


async def test_a_list_has_the_open_batches_first(api: httpx.AsyncClient) -> None:
    done = (await carried_out(api, doubles(2)))["id"]
    open_one = await begun(api, sleepers(1, 600))
    listed = (await api.get("/v1/batches", params={"page_size": 2})).json()
    assert [one["id"] for one in listed["batches"]] == [open_one, done]
    assert listed["batches"][1]["completed"] == 2
    only_open = (await api.get("/v1/batches", params={"only_open": True})).json()["batches"]
    assert [one["id"] for one in only_open] == [open_one]
    assert (await api.post(f"/v1/batches/{open_one}/cancel")).status_code == 202
    assert (await ended(api, open_one))["status"] == "cancelled"
    assert (await seen(api, open_one))["cancelled"] == 1
