"""The run of an ended task goes on for a new task: by hand, through every door that has it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.spending.contracts import LedgerOverview, exact_usd, ledger_id
from outlast.client import AsyncClient
from tests.integration.resurrection.conftest import ANN, BOB
from tests.integration.resurrection.test_cut_short_runs import call, resurrections, told
from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.processes.terminal import Shell
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

POLICY = """
[[resurrect]]
caller = "key:ann"
tool = "outlast/sleeper"
max_times = 1

[[resurrect]]
tool = "*"
max_times = 0

[callers."key:ann".spending]
per_day_usd = 1000
"""


@pytest.fixture
async def ruled_api(temporal: Client, sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An API whose policy says for whom runs are resurrected, and what Ann may spend."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    settings = api_settings(sandbox, api_keys=f"ann:{ANN},bob:{BOB}", policy_file=policy)
    async with serving_api(temporal, settings) as api:
        api.headers.update(bearer(ANN))
        yield api


async def resurrected(api: httpx.AsyncClient, task_id: str, **body: Any) -> httpx.Response:
    return await api.post(f"/v1/tasks/{task_id}/resurrect", json=body)


async def timed_out(api: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    """A task whose run has timed out in the middle of its rows."""
    answer = await completed(api, call(4, limit=3, resurrect=None, **more))
    assert answer["task"]["run"]["status"] == "TIMED-OUT"
    return answer["task"]


async def test_the_run_of_an_ended_task_goes_on_for_a_new_one(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    old, starts = await timed_out(api), sandbox.counters["startsAccepted"]
    answers = [await resurrected(api, old["id"], budget={"max_run_seconds": 60}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    new, repeated = [answer.json() for answer in answers]
    assert (new["id"], new["resurrects"]) == (repeated["id"], old["id"])
    assert new["id"] != old["id"]
    answer = await result_of(api, new["id"])
    run = answer["task"]["run"]
    assert (run["run_id"], run["status"]) == (old["run"]["run_id"], "SUCCEEDED")
    assert [row["index"] for row in answer["result"]["structured"]["items"]] == list(range(6))
    assert sandbox.counters["startsAccepted"] == starts
    assert run["stats"]["resurrectCount"] == 1
    spent = exact_usd(old["cost_usd"]) + exact_usd(answer["task"]["cost_usd"])
    assert spent == exact_usd(sandbox.run(run["run_id"])["usageTotalUsd"])
    names = [event.name for event in await told(api, new["id"]) if event.id is not None]
    assert names[:2] == ["created", "run_resurrected"]
    again = await resurrected(api, new["id"])
    assert (again.status_code, "it has succeeded" in again.json()["detail"]) == (409, True)


async def test_what_cannot_or_should_not_go_on_is_refused(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    before = resurrections(sandbox)
    open_task = await started(api, call(60))
    own_fault = (await completed(api, call(0.5, failWith={"exitCode": 3})))["task"]
    no_run = (await completed(api, {"tool": "get-actor-run-list", "arguments": {}}))["task"]
    dear = await timed_out(api)
    for task_id, body, status, words in (
        (open_task, {}, 409, "has not ended"),
        (own_fault["id"], {}, 409, "exit code 3"),
        (no_run["id"], {}, 409, "has no run"),
        (dear["id"], {"budget": {"max_total_charge_usd": "0.000000001"}}, 409, "as much as it may"),
        (dear["id"], {"budget": {"max_total_charge_usd": "-1"}}, 422, ""),
        (dear["id"], {"forced": True}, 422, "forced"),
        ("no-such-task", {}, 404, "no-such-task"),
    ):
        answer = await resurrected(api, task_id, **body)
        assert (answer.status_code, words in answer.text) == (status, True), answer.text
    foreign = await api.post(f"/v1/tasks/{dear['id']}/resurrect", headers=bearer(BOB))
    assert foreign.status_code == 404
    assert resurrections(sandbox) == before
    assert (await api.post(f"/v1/tasks/{open_task}/cancel")).status_code == 202


async def test_a_run_that_produced_nothing_goes_on_by_force_only(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    empty = (await completed(api, call(3, limit=2, rows=0, resurrect=None)))["task"]
    refused = await result_of(api, (await resurrected(api, empty["id"])).json()["id"])
    assert "it produced nothing" in refused["result"]["error"]["message"]
    assert refused["result"]["error"]["category"] == "conflict"
    forced = (await resurrected(api, empty["id"], force=True)).json()
    assert (await result_of(api, forced["id"]))["task"]["run"]["status"] == "SUCCEEDED"
    assert sandbox.run(empty["run"]["run_id"])["stats"]["resurrectCount"] == 1


async def test_cancelling_the_new_task_aborts_the_run(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    old = (await completed(api, call(120, limit=2, rows=600, steps=600, resurrect=None)))["task"]
    new = (await resurrected(api, old["id"], budget={"max_run_seconds": 600})).json()["id"]
    await eventually(lambda: sandbox.run(old["run"]["run_id"])["status"] == "RUNNING")
    assert (await api.post(f"/v1/tasks/{new}/cancel")).status_code == 202
    answer = await result_of(api, new)
    assert answer["task"]["status"] == "cancelled"
    assert sandbox.run(old["run"]["run_id"])["status"] == "ABORTED"


async def test_the_client_has_it(service: Service, api: httpx.AsyncClient) -> None:
    old = await timed_out(api)
    async with AsyncClient(service.api_url, token=ANN) as client:
        new = await client.resurrect(old["id"], max_run_seconds=60, memory_mbytes=512)
        answer = await client.wait(new.id)
    assert (new.resurrects, answer.task.status) == (old["id"], "completed")
    assert answer.task.run is not None
    assert answer.task.run.resurrections == 1
    assert answer.task.run.stats.get("resurrectCount") == 1


async def test_the_policy_says_for_whom_and_limits_what_calls_ask_for(
    ruled_api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    long = {"rows": 600, "steps": 600}
    for body, headers, times in (
        (call(60, limit=1, resurrect=None, **long), {}, 1),
        (call(60, limit=1, resurrect={"max_times": 5}, **long), {}, 1),
        (call(60, limit=1, resurrect={"max_times": 5}, **long), bearer(BOB), None),
    ):
        run = (await completed(ruled_api, body, **headers))["task"]["run"]
        assert run["stats"].get("resurrectCount") == times
    wrong = {"tool": "get-actor-run-list", "arguments": {}, "options": {"resurrect": {"max_times": 1}}}
    refused = await ruled_api.post("/v1/tasks", json=wrong)
    assert (refused.status_code, "it starts no run" in refused.text) == (422, True)


async def test_the_ledger_has_what_all_lives_have_cost_once(
    ruled_api: httpx.AsyncClient, sandbox: Sandbox, temporal: Client
) -> None:
    """A run with two lives for its task, and a third one for another task; more is charged between."""
    handle = temporal.get_workflow_handle(ledger_id("key:ann"))
    exists = await temporal.count_workflows(f"WorkflowId = '{ledger_id('key:ann')}'")
    earlier = (await handle.query("overview", result_type=LedgerOverview)).records if exists.count else ()
    old = (await completed(ruled_api, call(7, limit=3, resurrect={"max_times": 1})))["task"]
    run_id = old["run"]["run_id"]
    assert old["run"]["stats"]["resurrectCount"] == 1
    sandbox.add_usage(run_id, 0.25)
    new = (await resurrected(ruled_api, old["id"], budget={"max_run_seconds": 60})).json()["id"]
    assert (await result_of(ruled_api, new))["task"]["status"] == "completed"

    async def equal_books() -> bool:
        ledger = await handle.query("overview", result_type=LedgerOverview)
        booked = [one.cost_usd for one in ledger.records[len(earlier) :] if one.run_id == run_id]
        assert sum(booked) == exact_usd(sandbox.run(run_id)["usageTotalUsd"]), ledger
        assert len(booked) == 3, "what the first task has cost, what was charged later, and what the second has cost"
        assert ledger.reserved_usd == 0
        return True

    await eventually(equal_books)


async def test_items_of_a_batch_go_on_instead_of_being_paid_anew(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    starts, before = sandbox.counters["startsAccepted"], resurrections(sandbox)
    body = {
        "tool": "outlast--sleeper",
        "arguments": {"seconds": 4, "rows": 6, "steps": 6},
        "items": [{"key": "a"}, {"key": "b"}],
        "options": {"deadline_seconds": 3, "resurrect": {"max_times": 2}},
        "retries": {"timeout": 2},
    }
    batch_id = (await api.post("/v1/batches", json=body)).json()["id"]

    async def ended() -> dict[str, Any]:
        batch = (await api.get(f"/v1/batches/{batch_id}")).json()
        assert batch["finished_at"], batch
        return batch

    batch = await eventually(ended)
    assert (batch["completed"], batch["rows"]) == (2, 12), batch
    assert sandbox.counters["startsAccepted"] == starts + 2
    assert resurrections(sandbox) >= before + 2
    tasks = (await api.get("/v1/tasks", params={"batch_id": batch_id})).json()["tasks"]
    runs = {task["run"]["run_id"] for task in tasks}
    charged = sum(exact_usd(sandbox.run(run_id)["usageTotalUsd"]) for run_id in runs)
    assert exact_usd(batch["cost_usd"]) == charged


async def test_many_requests_at_once_have_the_run_go_on_once(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    old = await timed_out(api)
    answers = await asyncio.gather(*(resurrected(api, old["id"], budget={"max_run_seconds": 60}) for _ in range(20)))
    assert len({answer.json()["id"] for answer in answers}) == 1
    await result_of(api, answers[0].json()["id"])
    assert sandbox.run(old["run"]["run_id"])["stats"]["resurrectCount"] == 1


async def test_runs_go_on_from_the_command_line(service: Service, api: httpx.AsyncClient, tmp_path: Path) -> None:
    """That of an ended task, and of a call that allows it from the start."""
    shell, old = Shell(service, tmp_path), await timed_out(api)
    by_hand = ("tasks", "resurrect", old["id"], "--max-run-time", "60s")
    sleeper = (
        "call",
        "outlast/sleeper",
        '{"seconds": 4, "steps": 6, "rows": 6}',
        "--max-run-time",
        "3s",
        "--resurrect",
        "2",
    )
    for command in (by_hand, sleeper):
        ended = await shell.outlast(*command, "--token", ANN, "--json")
        assert ended.code == 0, ended.said
        run = json.loads(ended.out)["task"]["run"]
        assert (run["status"], run["stats"]["resurrectCount"]) == ("SUCCEEDED", 1)
        assert (run["run_id"] == old["run"]["run_id"]) == (command is by_hand)
    refused = await shell.outlast("tasks", "resurrect", "no-such-task", "--token", ANN)
    assert (refused.code, "no-such-task" in refused.said) == (2, True)


async def test_a_run_that_had_produced_enough_goes_on_to_its_end(api: httpx.AsyncClient) -> None:
    """Its `until` is met already, and would stop it again at once."""
    body = call(6, resurrect=None)
    body["options"]["until"] = {"rows": 2}
    old = (await completed(api, body))["task"]
    assert old["run"]["until_met"]["condition"] == "rows"
    new = (await resurrected(api, old["id"])).json()
    answer = await result_of(api, new["id"])
    run = answer["task"]["run"]
    assert (run["run_id"], run["status"], run["until_met"]) == (old["run"]["run_id"], "SUCCEEDED", None)
    assert len(answer["result"]["structured"]["items"]) == 6
