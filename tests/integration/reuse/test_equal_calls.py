"""Equal calls of one caller meet in one task: the run is started, and paid, once."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from tests.integration.reuse.conftest import ANN, BOB
from tests.support.calls.batches import carried_out
from tests.support.calls.tasks import WAIT, completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox

HOUR = {"max_age": "1h"}
KEYS = f"ann:{ANN},bob:{BOB}"


@pytest.fixture
async def other_api(temporal: Client, sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    """Another API process of the same Outlast, which knows nothing of what the first has seen."""
    async with serving_api(temporal, api_settings(sandbox, api_keys=KEYS)) as api:
        api.headers.update(bearer(ANN))
        yield api


def call(seconds: float = 0, *, reuse: dict[str, Any] | None = HOUR, options: Any = None, **run_input: Any) -> Any:
    """A run of the sleeper that says what it may be answered by."""
    given = {**(options or {}), **({"reuse": reuse} if reuse else {})}
    return sleeper_call(seconds, **run_input) | {"options": given}


def runs_of(sandbox: Sandbox) -> int:
    accepted: int = sandbox.counters["startsAccepted"]
    return accepted


async def reuse_counted(*apis: httpx.AsyncClient) -> Counter[str]:
    """What the metrics of these APIs say of calls with reuse, by outcome."""
    counted = Counter[str]()
    for api in apis:
        metrics = (await api.get("/metrics")).text
        for outcome, number in re.findall(
            r'^outlast_reused_calls_total{outcome="(\w+)"} (\S+)$', metrics, re.MULTILINE
        ):
            counted[outcome] += int(float(number))
    return counted


@pytest.mark.parametrize("calls", [100, pytest.param(1_000, marks=pytest.mark.thorough)])
async def test_equal_calls_at_once_start_one_run(
    api: httpx.AsyncClient, other_api: httpx.AsyncClient, sandbox: Sandbox, calls: int
) -> None:
    before, counted = runs_of(sandbox), await reuse_counted(api, other_api)
    body = call(2, message=f"{calls} at once")
    doors = [api, other_api] * (calls // 2)
    answers = await asyncio.gather(*(completed(one, body) for one in doors))
    assert runs_of(sandbox) == before + 1
    assert len({answer["task"]["id"] for answer in answers}) == 1
    assert {answer["task"]["status"] for answer in answers} == {"completed"}
    assert [answer["task"].get("reused") for answer in answers].count(None) == 1
    counted = await reuse_counted(api, other_api) - counted
    assert (counted["started"], counted.total()) == (1, calls)


async def test_an_answer_is_reused_and_says_so(api: httpx.AsyncClient, other_api: httpx.AsyncClient) -> None:
    first = await completed(api, call(message="finished"))
    assert first["task"].get("reused") is None
    for one in (api, other_api):
        again = await completed(one, call(message="finished"))
        assert again["task"]["id"] == first["task"]["id"]
        assert again["result"] == first["result"]
        assert again["task"]["reused"]["joined"] is False
        assert again["task"]["reused"]["age_seconds"] >= 0
    looked_at = await api.get(f"/v1/tasks/{first['task']['id']}")
    assert looked_at.json()["reused"] is None


async def test_the_form_of_the_arguments_makes_no_difference(api: httpx.AsyncClient) -> None:
    first = await completed(api, call(message="form"))
    body = call(message="form")
    arguments = body["arguments"]
    turned = dict(reversed(arguments["input"].items()))
    for written in ("outlast/sleeper", "outlast~sleeper"):
        body["arguments"] = {"input": turned, "actor": written}
        assert (await completed(api, body))["task"]["id"] == first["task"]["id"]


@pytest.mark.parametrize(
    "other",
    [
        call(message="equal", rows=2),
        call(0.001, message="equal"),
        call(message="equal", options={"budget": {"max_items": 1}}),
        call(message="equal", options={"output": {"compress": False}}),
        call(message="equal") | {"mode": "openai"},
        call(message="equal", reuse=None),
    ],
    ids=["input", "value", "budget", "output", "mode", "not asked for"],
)
async def test_what_is_not_equal_starts_anew(api: httpx.AsyncClient, other: dict[str, Any]) -> None:
    first = await completed(api, call(message="equal"))
    assert (await completed(api, other))["task"]["id"] != first["task"]["id"]
    assert (await completed(api, call(message="equal")))["task"]["id"] == first["task"]["id"]


async def test_callers_never_meet(api: httpx.AsyncClient) -> None:
    """Neither when one call comes after the other, nor when both run, nor in the items of batches."""
    first = await completed(api, call(message="tenants"))
    other = await completed(api, call(message="tenants"), **bearer(BOB))
    assert other["task"]["id"] != first["task"]["id"]
    assert other["task"].get("reused") is None
    again = await completed(api, call(message="tenants"), **bearer(BOB))
    assert again["task"]["id"] == other["task"]["id"], "each caller's own answer is reused"
    running = [await started(api, call(600, message="both run"), **headers) for headers in ({}, bearer(BOB))]
    assert len({*running}) == 2
    for task, headers in zip(running, ({}, bearer(BOB)), strict=True):
        assert (await api.post(f"/v1/tasks/{task}/cancel", headers=headers)).status_code == 202
    body = call(message="tenants")
    batch = {"tool": body["tool"], "items": [{"arguments": body["arguments"]}], "options": body["options"]}
    for headers, own in (({}, first), (bearer(BOB), other)):
        ended = await carried_out(api, batch, **headers)
        row = (await api.get(f"/v1/batches/{ended['id']}/results", headers=headers)).json()
        assert row["task_id"] == own["task"]["id"], "an item finds its own caller's answer, and no other"


async def test_failures_are_not_reused(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    failing = call(message="fails", failWith={"exitCode": 3})
    before = runs_of(sandbox)
    tasks = [(await completed(api, failing))["task"] for _ in range(2)]
    assert [task["status"] for task in tasks] == ["failed", "failed"]
    assert tasks[0]["id"] != tasks[1]["id"]
    assert runs_of(sandbox) == before + 2


async def test_a_cancelled_task_is_not_joined(api: httpx.AsyncClient) -> None:
    first = await started(api, call(600, message="cancelled"))
    assert (await api.post(f"/v1/tasks/{first}/cancel")).status_code == 202
    second = await started(api, call(600, message="cancelled"))
    assert second != first
    assert (await api.post(f"/v1/tasks/{second}/cancel")).status_code == 202


async def test_an_answer_that_is_too_old_is_not_reused(api: httpx.AsyncClient) -> None:
    first = await completed(api, call(message="old"))

    async def started_anew() -> bool:
        answer = await completed(api, call(message="old", reuse={"max_age": "1s"}))
        return answer["task"]["id"] != first["task"]["id"]

    assert await eventually(started_anew)


async def test_refresh_starts_anew_and_is_met_by_later_calls(
    api: httpx.AsyncClient, other_api: httpx.AsyncClient
) -> None:
    first = await completed(api, call(message="fresh"))
    assert (await completed(other_api, call(message="fresh")))["task"]["id"] == first["task"]["id"]
    fresh = await completed(api, call(message="fresh", reuse={"refresh": True}))
    assert fresh["task"]["id"] != first["task"]["id"]
    assert fresh["task"].get("reused") is None
    assert (await completed(api, call(message="fresh")))["task"]["id"] == fresh["task"]["id"]
    # The other process finds the number taken that it thinks to be the next.
    newest = await completed(other_api, call(message="fresh", reuse={"refresh": True}))
    assert newest["task"]["id"] not in (first["task"]["id"], fresh["task"]["id"])


async def test_the_same_key_meets_its_task_whatever_became_of_it(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    failing = call(message="keyed", failWith={"exitCode": 3})
    before = runs_of(sandbox)
    tasks = [(await completed(api, failing, **{"Idempotency-Key": "keyed"}))["task"] for _ in range(2)]
    assert tasks[0]["id"] == tasks[1]["id"]
    assert runs_of(sandbox) == before + 1


async def test_an_answer_whose_stored_output_is_gone_is_not_reused(api: httpx.AsyncClient) -> None:
    body = call(message="stored", rows=400, options={"output": {"threshold_bytes": 100}})
    first = await completed(api, body)
    locator = first["result"]["locator"]
    assert (await completed(api, body))["task"]["id"] == first["task"]["id"]
    assert (await api.delete(f"/v1/outputs/{locator}")).is_success
    assert (await completed(api, body))["task"]["id"] != first["task"]["id"]


async def test_quick_reads_are_reused(api: httpx.AsyncClient) -> None:
    run = (await completed(api, call(message="read")))["task"]["run"]
    body = {
        "tool": "get-dataset-items",
        "arguments": {"datasetId": run["dataset_id"]},
        "options": {"reuse": HOUR},
    }
    first = await completed(api, body)
    assert first["task"]["status"] == "completed", first
    again = await completed(api, body | {"arguments": {**body["arguments"], "offset": 0}})
    assert again["task"]["id"] == first["task"]["id"]
    assert again["result"]["structured"] == first["result"]["structured"]


async def test_a_later_call_joins_a_task_that_is_under_way(api: httpx.AsyncClient) -> None:
    first = await started(api, call(600, message="joined"))
    joined = await api.post("/v1/tasks", json=call(600, message="joined"))
    assert joined.json()["id"] == first
    assert joined.json()["reused"] == {"joined": True, "age_seconds": 0}
    assert (await api.post(f"/v1/tasks/{first}/cancel")).status_code == 202
    assert (await result_of(api, first))["task"]["status"] in ("working", "cancelled")


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("abort-actor-run", {"runId": "Abcdefgh123456789"}, "it has effects"),
        ("call-actor", {"actor": "outlast/toolbox:add", "input": {}}, "MCP server"),
        ("restore-tool-output", {"locator": "out_x"}, "stored output"),
    ],
)
async def test_what_acts_cannot_be_reused(
    api: httpx.AsyncClient, tool: str, arguments: dict[str, Any], why: str
) -> None:
    body = {"tool": tool, "arguments": arguments, "options": {"reuse": HOUR}}
    refused = await api.post("/v1/tasks", json=body, headers=WAIT)
    assert refused.status_code == 422, refused.text
    assert why in refused.json()["detail"]


@pytest.mark.parametrize("reuse", [{}, {"max_age": "0s"}, {"max_age": "31d"}, {"max_age": "soon"}, {"max_age": True}])
async def test_an_age_that_is_none_is_refused(api: httpx.AsyncClient, reuse: dict[str, Any]) -> None:
    refused = await api.post("/v1/tasks", json=call() | {"options": {"reuse": reuse}})
    assert refused.status_code == 422, refused.text
    assert "reuse" in refused.text
