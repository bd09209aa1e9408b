"""Batches through the client: rows as they come, files, lost connections, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from outlast.client import AsyncClient, BadSettings, Batch, Client, Conflict, InvalidRequest, WaitTimedOut
from tests.support.stacks.api_server import MortalApi

SLEEPER = "outlast/sleeper"
QUICK: dict[str, Any] = {"seconds": 0, "steps": 1}


def test_rows_come_as_the_items_end(client: Client) -> None:
    inputs = {f"k{number}": {"message": f"m{number}"} for number in range(8)}
    with client.map(SLEEPER, inputs, QUICK, concurrency=3, order="given") as rows:
        found = [(row.key, row.status, row.items) for row in rows]
    assert [key for key, _, _ in found] == list(inputs)
    assert {status for _, status, _ in found} == {"completed"}
    messages = [items[0]["message"] for _, _, items in found if items and isinstance(items[0], dict)]
    assert messages == [f"m{number}" for number in range(8)]


def test_equal_items_have_one_run_and_the_rows_say_so(client: Client) -> None:
    inputs = [{"message": "the same for the client"}] * 3
    with client.map(SLEEPER, inputs, QUICK, reuse="1h") as found:
        rows = list(found)
    assert len({row.run_id for row in rows}) == 1
    assert [row.reused is None for row in rows].count(True) == 1
    assert sum(row.cost_usd or 0 for row in rows if row.reused is not None) == 0


async def test_rows_come_to_an_asynchronous_client(async_client: AsyncClient) -> None:
    async with async_client.map(SLEEPER, [{"message": "a"}, {"message": "b"}], QUICK, name="two") as rows:
        keys = [row.key async for row in rows]
    assert sorted(keys) == ["1", "2"]
    [latest] = (await async_client.batches.list_page(page_size=1)).batches
    assert (latest.name, latest.completed, latest.has_ended) == ("two", 2, True)


def test_a_file_becomes_a_batch_and_results_a_file(client: Client, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("who,wait\nann,0\nbob,0\n")
    mapping = {"message": "who", "seconds": "wait"}
    batch = client.batches.start_file(SLEEPER, tmp_path / "in.csv", {"steps": 1}, mapping=mapping, key="who")
    assert client.batches.wait(batch.id).completed == 2
    assert client.batches.save(batch.id, tmp_path / "out.csv") > 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
    client.batches.save(batch.id, tmp_path / "out.jsonl", status="failed")
    assert (tmp_path / "out.jsonl").read_text() == ""
    for missing in ("in.txt", "absent.csv"):
        with pytest.raises(BadSettings):
            client.batches.start_file(SLEEPER, tmp_path / missing)
    # The rows of one batch are the items of the next.
    second = client.batches.start_rows(
        SLEEPER, QUICK, output=batch.results, limit=1, mapping={"message": "key"}, key="key"
    )
    assert client.batches.wait(second.id).total == 1


def test_items_that_do_not_fit_are_named(client: Client) -> None:
    with pytest.raises(InvalidRequest) as refused:
        client.batches.start(SLEEPER, [{"seconds": 0}, {"seconds": -1}])
    assert [violation.path.split("/")[1] for violation in refused.value.violations] == ["2"]


def test_a_batch_is_cancelled_resumed_and_retried(client: Client) -> None:
    items = [{"seconds": 600}, {"seconds": 0, "failWith": {"exitCode": 1}}]
    batch = client.batches.start(SLEEPER, items, {"steps": 1})
    with pytest.raises(WaitTimedOut):
        client.batches.wait(batch.id, timeout_seconds=0)
    failed = next(iter(client.batches.follow(batch.id, status="failed")))
    assert failed.error is not None
    assert [task.batch_id for task in client.list_tasks(batch_id=batch.id)] == [batch.id] * 2
    client.batches.cancel(batch.id)
    assert (client.batches.wait(batch.id).status, client.batches.get(batch.id).cancelled) == ("cancelled", 1)
    with pytest.raises(Conflict):
        client.batches.cancel(batch.id)
    client.batches.retry(batch.id, [failed.error.category], concurrency=2)
    after = client.batches.wait(batch.id)
    assert (after.failed, after.cancelled) == (1, 1)
    client.batches.resume(batch.id, stop={"seconds": 1, "under_way": "cancel"})
    assert client.batches.wait(batch.id).stopped_by == "time"
    attempts = {row.index: row.attempts for row in client.batches.rows(batch.id)}
    assert attempts == {0: 2, 1: 2}


async def test_rows_go_on_when_the_api_is_killed_and_a_repeated_start_meets_its_batch(
    async_client: AsyncClient, mortal_api: MortalApi
) -> None:
    items = [{"seconds": 0.5} for _ in range(12)]
    async with AsyncClient(mortal_api.url) as mortal:
        batch = await mortal.batches.start(SLEEPER, items, {"steps": 1}, concurrency=2, idempotency_key="mortal")
        seen: list[int] = []
        async with mortal.batches.follow(batch.id) as rows:
            async for row in rows:
                seen.append(row.index)
                if len(seen) in (2, 6):
                    mortal_api.kill()
                    await mortal_api.start()
        again = await mortal.batches.start(SLEEPER, items, {"steps": 1}, concurrency=2, idempotency_key="mortal")
    assert sorted(seen) == list(range(12))
    assert again.id == batch.id


def test_a_batch_says_what_it_is(client: Client) -> None:
    """What a newer server says besides is kept."""
    told = {
        "id": "batch-1",
        "tool": "double",
        "mode": "default",
        "options": {},
        "waiting": 1,
        "status": "working",
        "created_at": "2026-01-01T00:00:00Z",
        "total": 3,
        "completed": 1,
        "failed": 1,
        "results": "out_x",
        "more": [1],
    }
    batch = Batch.model_validate_json(json.dumps(told))
    assert (batch.ended, batch.has_ended, batch.document()["more"]) == (2, False, [1])
