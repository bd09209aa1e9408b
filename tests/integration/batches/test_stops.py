"""When a batch stops, what goes on afterwards, and that no key ever has two rows."""

from decimal import Decimal
from typing import Any

import httpx

from tests.support.calls.batches import Body, begun, carried_out, doubles, ended, rows_of, seen, sleepers
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox


def failing(numbers: range, count: int, category: str = "not_found", **more: Any) -> Body:
    """A batch of quick items, of which those of `numbers` fail."""
    body = doubles(count, **more)
    for number in numbers:
        body["items"][number]["arguments"]["fails_with"] = category
    return body


async def test_failed_items_are_listed_with_their_envelope(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, failing(range(3), 10))
    assert (batch["status"], batch["completed"], batch["failed"]) == ("completed", 7, 3)
    failed = await rows_of(api, batch["id"], status="failed")
    assert {row["key"] for row in failed} == {"n0", "n1", "n2"}
    assert {row["error"]["category"] for row in failed} == {"not_found"}
    assert len(await rows_of(api, batch["id"], status="completed", offset=2, limit=4)) == 4


async def test_items_are_tried_again_by_the_category_of_their_error(api: httpx.AsyncClient) -> None:
    body = failing(range(2), 4, "rate_limit", retries={"rate_limit": 2, "timeout": 9})
    body["items"][0]["arguments"]["fails_until"] = 1
    body["items"][1]["arguments"]["fails_until"] = 5
    batch = await carried_out(api, body)
    rows = {row["key"]: row for row in await rows_of(api, batch["id"])}
    assert {key: (row["status"], row["attempts"]) for key, row in rows.items()} == {
        "n0": ("completed", 2),
        "n1": ("failed", 3),
        "n2": ("completed", 1),
        "n3": ("completed", 1),
    }
    assert rows["n0"]["task_id"].endswith("-2")


async def test_a_category_that_would_refuse_all_items_stops_the_batch(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, failing(range(1), 50, "payment", concurrency=1))
    assert (batch["status"], batch["stopped_by"]) == ("stopped", "category")
    assert batch["failed"] == 1
    assert batch["waiting"] + batch["completed"] == 49
    assert batch["waiting"] > 40


async def test_too_many_failures_stop_the_batch_and_a_retry_runs_the_failed_ones_again(api: httpx.AsyncClient) -> None:
    body = failing(range(5, 8), 30, "platform", concurrency=2, stop={"failures": 3})
    for number in range(5, 8):
        body["items"][number]["arguments"]["fails_until"] = 1
    batch = await carried_out(api, body)
    assert (batch["status"], batch["stopped_by"], batch["failed"]) == ("stopped", "failures", 3)
    assert batch["waiting"] > 0
    retried = await api.post(f"/v1/batches/{batch['id']}/retry", json={"categories": ["platform"]})
    assert retried.status_code == 202, retried.text
    after = await ended(api, batch["id"])
    assert (after["status"], after["failed"], after["completed"]) == ("stopped", 0, batch["completed"] + 3)
    assert after["waiting"] == batch["waiting"]
    # What was never started is still there, for the reason for which the batch had stopped.
    assert (after["stopped_by"], after["status_message"]) == (
        "failures",
        f"Stopped: 3 items have failed. {after['waiting']} items have not run: resume the batch to run them.",
    )
    resumed = await api.post(f"/v1/batches/{batch['id']}/resume", json={})
    assert resumed.status_code == 202, resumed.text
    done = await ended(api, batch["id"])
    assert (done["status"], done["completed"], done["waiting"]) == ("completed", 30, 0)
    rows = await rows_of(api, batch["id"])
    assert sorted(row["index"] for row in rows) == list(range(30))
    assert {row["attempts"] for row in rows if row["index"] in range(5, 8)} == {2}
    nothing = await api.post(f"/v1/batches/{batch['id']}/retry", json={})
    assert (nothing.status_code, nothing.json()["type"]) == (409, "urn:outlast:problem:nothing-to-run")


async def test_a_share_of_failures_counts_from_twenty_items_on(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, failing(range(100), 100, concurrency=1, stop={"failure_share": 0.5}))
    assert (batch["stopped_by"], batch["failed"]) == ("failures", 20)


async def test_enough_is_enough(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, doubles(200, concurrency=1, stop={"completed": 4}))
    assert (batch["status"], batch["stopped_by"], batch["completed"]) == ("stopped", "enough", 4)
    rows = await carried_out(api, sleepers(20, concurrency=1, stop={"rows": 2}))
    assert (rows["stopped_by"], rows["rows"]) == ("enough", 2)


async def test_a_cancelled_batch_leaves_nothing_running_and_can_be_resumed(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    body = sleepers(9, 600, concurrency=4)
    for item in body["items"][:2] + body["items"][4:]:
        item["arguments"]["input"]["seconds"] = 0
    batch_id = await begun(api, body)

    async def some_are_done() -> bool:
        batch = await seen(api, batch_id)
        assert batch["completed"] == 7, batch
        return True

    await eventually(some_are_done)
    running = sandbox.counters["runningNow"]
    assert len(running) == 2
    so_far = await rows_of(api, batch_id)
    assert {row["status"] for row in so_far} == {"completed"}
    await api.post(f"/v1/batches/{batch_id}/cancel")
    batch = await ended(api, batch_id)
    assert (batch["status"], batch["completed"], batch["cancelled"], batch["under_way"]) == ("cancelled", 7, 2, 0)
    assert not sandbox.counters["runningNow"]
    assert {sandbox.run(run)["status"] for run in running} == {"ABORTED"}
    again = await api.post(f"/v1/batches/{batch_id}/cancel")
    assert (again.status_code, again.json()["type"]) == (409, "urn:outlast:problem:batch-finished")

    resumed = await api.post(f"/v1/batches/{batch_id}/resume", json={"stop": {"seconds": 1, "under_way": "cancel"}})
    assert resumed.status_code == 202, resumed.text
    stopped = await ended(api, batch_id)
    assert (stopped["stopped_by"], stopped["completed"], stopped["cancelled"]) == ("time", 7, 2)
    rows = await rows_of(api, batch_id)
    assert sorted(row["index"] for row in rows) == list(range(9))
    assert [row["attempts"] for row in rows if row["status"] == "cancelled"] == [2, 2]
    assert not sandbox.counters["runningNow"]


async def test_one_item_can_be_cancelled_alone(api: httpx.AsyncClient) -> None:
    batch_id = await begun(api, sleepers(1, 600))

    async def its_task() -> str:
        tasks = (await api.get("/v1/tasks", params={"batch_id": batch_id})).json()["tasks"]
        assert [task["run"] is not None for task in tasks] == [True], tasks
        return tasks[0]["id"]

    assert (await api.post(f"/v1/tasks/{await eventually(its_task)}/cancel")).status_code == 202
    batch = await ended(api, batch_id)
    assert (batch["status"], batch["cancelled"]) == ("completed", 1)


async def test_a_running_batch_is_neither_resumed_nor_retried(api: httpx.AsyncClient) -> None:
    batch_id = await begun(api, sleepers(1, 600))
    for verb in ("resume", "retry"):
        refused = await api.post(f"/v1/batches/{batch_id}/{verb}", json={})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:outlast:problem:batch-running")
    await api.post(f"/v1/batches/{batch_id}/cancel")
    await ended(api, batch_id)


async def test_a_budget_is_kept_and_a_larger_one_goes_on(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    """Each item may cost two cents. The budget leaves as much for a few of them, one after the other."""
    one = await carried_out(api, sleepers(1, 1))
    cost = Decimal(str(one["cost_usd"]))
    assert cost > 0
    limit = {"budget": {"max_total_charge_usd": "0.02"}}
    started, budget = sandbox.counters["startsAccepted"], Decimal("0.02") + cost * 7 / 2
    batch = await carried_out(api, sleepers(30, 1, concurrency=10, budget_usd=str(budget), options=limit))
    assert (batch["status"], batch["stopped_by"]) == ("stopped", "money")
    assert batch["cost_usd"] <= budget
    assert 1 <= batch["completed"] == sandbox.counters["startsAccepted"] - started < 30
    rows = await rows_of(api, batch["id"])
    limits = {sandbox.run(row["run_id"])["options"]["maxTotalChargeUsd"] for row in rows}
    assert limits == {0.02}
    raised = await api.post(f"/v1/batches/{batch['id']}/resume", json={"budget_usd": 5, "concurrency": 20})
    assert raised.status_code == 202, raised.text
    done = await ended(api, batch["id"])
    assert (done["status"], done["completed"], done["budget_usd"]) == ("completed", 30, 5.0)
    assert sandbox.counters["startsAccepted"] - started == 30


async def test_a_budget_is_divided_among_items_without_a_limit_of_their_own(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    batch = await carried_out(api, sleepers(8, 0, concurrency=4, budget_usd="0.8"))
    assert batch["status"] == "completed"
    rows = await rows_of(api, batch["id"])
    limits = [sandbox.run(row["run_id"])["options"]["maxTotalChargeUsd"] for row in rows]
    assert max(limits) == 0.1
    assert min(limits) > 0
