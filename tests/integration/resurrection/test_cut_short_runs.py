"""A run that was cut short goes on for the same task, where that is allowed and it has produced something."""

from typing import Any

import httpx
import pytest

from tests.support.calls.tasks import Event, completed, events, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox

TWICE = {"max_times": 2}
RESURRECT = "/v2/actor-runs/[^/]+/resurrect$"


def call(
    seconds: float, *, limit: int | None = None, resurrect: dict[str, Any] | None = TWICE, rows: int = 6, **more: Any
) -> dict[str, Any]:
    """A run of the sleeper with a row for each step, that may take so many seconds a life."""
    body = sleeper_call(seconds, **{"rows": rows, "steps": 6, **more})
    options: dict[str, Any] = {"budget": {"max_run_seconds": limit}} if limit else {}
    return body | {"options": {**options, **({"resurrect": resurrect} if resurrect else {})}}


def resurrections(sandbox: Sandbox) -> int:
    """How often runs were resurrected, by the platform's own count."""
    found = (one for one in sandbox.counters["requests"] if one["route"].endswith("/resurrect"))
    return sum(one["count"] for one in found if one["status"] == 200)


async def told(api: httpx.AsyncClient, task_id: str) -> list[Event]:
    return [event async for event in events(api, task_id)]


async def test_a_run_that_timed_out_goes_on_and_has_all_rows_of_both_lives_once(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    starts = sandbox.counters["startsAccepted"]
    answer = await completed(api, call(4, limit=3))
    run, result = answer["task"]["run"], answer["result"]
    assert (answer["task"]["status"], run["status"]) == ("completed", "SUCCEEDED")
    assert sandbox.counters["startsAccepted"] == starts + 1
    assert [row["index"] for row in result["structured"]["items"]] == list(range(6))
    assert run["stats"]["resurrectCount"] == result["structured"]["stats"]["resurrectCount"] == 1
    assert "It was resurrected once." in result["content"][0]["text"]
    assert answer["task"]["cost_usd"] == sandbox.run(run["run_id"])["usageTotalUsd"]
    seen = await told(api, answer["task"]["id"])
    names = [event.name for event in seen if event.id is not None and event.name.startswith("run_")]
    assert names == ["run_started", "run_finished", "run_resurrected", "run_finished"]
    states = [event.data["status"] for event in seen if event.name == "run_finished"]
    assert states == ["TIMED-OUT", "SUCCEEDED"]


async def test_a_run_that_died_with_the_platform_goes_on(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    task_id = await started(api, call(4, mode="openai"))

    async def has_rows() -> str | None:
        run = (await api.get(f"/v1/tasks/{task_id}")).json().get("run")
        return run["run_id"] if run and sandbox.rows(run["dataset_id"]) else None

    run_id = await eventually(has_rows)
    sandbox.lose_run(run_id)

    async def ended() -> dict[str, Any] | None:
        task = (await api.get(f"/v1/tasks/{task_id}")).json()
        return task if task["finished_at"] else None

    run = (await eventually(ended))["run"]
    assert (run["run_id"], run["status"], run["stats"]["resurrectCount"]) == (run_id, "SUCCEEDED", 1)
    assert [row["index"] for row in sandbox.rows(run["dataset_id"])] == list(range(6))


async def test_a_run_that_produced_nothing_is_not_resurrected(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    before = resurrections(sandbox)
    answer = await completed(api, call(60, limit=1, rows=0))
    error = answer["result"]["error"]
    assert (answer["task"]["status"], error["category"]) == ("failed", "timeout")
    assert "It was not resurrected: it produced nothing in all its time" in error["message"]
    assert resurrections(sandbox) == before


async def test_a_run_that_produced_nothing_more_is_not_resurrected_again(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    """Its rows are five seconds apart, and it is lost at the beginning of its second life."""
    before = resurrections(sandbox)
    task_id = await started(api, call(50, limit=6, rows=10, steps=10, resurrect={"max_times": 5}))
    async for event in events(api, task_id):
        if event.name == "run_resurrected":
            sandbox.lose_run(event.data["run_id"])
    answer = await result_of(api, task_id)
    assert "It was not resurrected: it produced nothing since" in answer["result"]["error"]["message"]
    assert resurrections(sandbox) == before + 1
    assert [row["index"] for row in answer["result"]["structured"]["items"]] == [0]


async def test_no_run_is_resurrected_more_often_than_allowed(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    before = resurrections(sandbox)
    answer = await completed(api, call(60, limit=1, rows=600, steps=600, resurrect={"max_times": 1}))
    assert answer["task"]["status"] == "failed"
    assert answer["task"]["run"]["stats"]["resurrectCount"] == 1
    assert resurrections(sandbox) == before + 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(call(60, limit=1, rows=600, steps=600, resurrect=None), id="without permission"),
        pytest.param(call(60, limit=1, rows=600, steps=600, resurrect={"max_times": 0}), id="forbidden by the caller"),
        pytest.param(call(0.5, failWith={"exitCode": 3}), id="failed by its own error"),
    ],
)
async def test_what_is_not_allowed_or_its_own_fault_is_not_resurrected(
    api: httpx.AsyncClient, sandbox: Sandbox, body: dict[str, Any]
) -> None:
    before = resurrections(sandbox)
    answer = await completed(api, body)
    assert answer["task"]["status"] == "failed"
    assert "resurrect" not in answer["result"]["error"]["message"]
    assert resurrections(sandbox) == before
