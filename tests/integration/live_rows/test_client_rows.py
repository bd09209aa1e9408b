"""The Python client iterates over rows as they come, and says when a run has produced enough; batches do, too."""

import asyncio

import pytest

from outlast.client import AsyncClient, Client, Conflict, NotFound
from tests.integration.live_rows.conftest import ANN
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

LONG = {"seconds": 120, "steps": 480, "rows": 480}


def test_a_loop_over_rows_ends_with_the_run(service: Service) -> None:
    with Client(service.api_url, ANN) as client:
        task = client.start("outlast/sleeper", {"seconds": 1, "steps": 4, "rows": 8})
        rows = list(client.rows(task.id))
        assert [row.data["index"] for row in rows] == list(range(8))
        assert [row.data["index"] for row in client.rows(task.id, after=rows[5].id)] == [6, 7]
        quick = client.call("get-actor-run-list", {})
        with pytest.raises(Conflict, match="started no run"):
            next(client.rows(quick.task.id))
        with pytest.raises(NotFound):
            next(client.rows("no-such-task"))


async def test_a_run_that_is_stopped_ends_the_loop(service: Service) -> None:
    async with AsyncClient(service.api_url, ANN) as client:
        task = await client.start("outlast/sleeper", LONG, until={"expression": "index > `5`"})
        async with client.rows(task.id, follow=True) as rows:
            numbers = [row.data["index"] async for row in rows]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > 6
        answer = await client.wait(task.id)
        assert answer.task.run is not None
        assert answer.task.run.until_met is not None
        assert answer.task.run.until_met.condition == "expression"


async def test_each_item_of_a_batch_is_stopped_with_enough(service: Service, sandbox: Sandbox) -> None:
    async with AsyncClient(service.api_url, ANN) as client:
        items = [LONG, {**LONG, "steps": 240}]
        started = await asyncio.to_thread(lambda: sandbox.counters["startsAccepted"])
        rows = [row async for row in client.map("outlast/sleeper", items, until={"rows": 3})]
        assert [row.status for row in rows] == ["completed", "completed"]
        assert sandbox.counters["startsAccepted"] - started == 2
