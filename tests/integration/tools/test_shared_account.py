"""Callers who share one Apify account: each reaches its own runs and their storages, through every tool."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.api.mcp.dialects.apify import ADDRESSES
from outlast.workflows.tools.framework.tool import Category, Tool
from outlast.workflows.tools.registry import MODES, base_tools
from tests.support.calls.tasks import completed, sleeper_call
from tests.support.http.api_client import api_client, bearer
from tests.support.http.mcp_wire import MODERN, Wire, WireError
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.fixtures import sandbox_fixture, temporal_fixture
from tests.support.stacks.sandbox import Sandbox

temporal = temporal_fixture()
sandbox = sandbox_fixture()
KEYS = {name: f"{name}-key-0123456789" for name in ("alice", "bob", "carol", "dave")}
ALICE, BOB, CAROL, DAVE = (bearer(key) for key in KEYS.values())
NO_ID = {"taskId", "actorTaskId", "locator", "windowId", "actorId", "actorRunId"}
"""Arguments that name nothing on the platform, or nothing that belongs to one caller of an account."""
OF_THE_ACCOUNT = (Category.TASKS, Category.SCHEDULES)
"""The platform does not say for whom of an account these were made."""
OTHERS: dict[str, Any] = {"recordKey": "INPUT", "unnamed": True, "limit": 10, "desc": True}
POLICY = """
[callers."key:carol"]
reach = "account"
[[rules]]
caller = "key:carol"
tool = "outlast/big-table"
action = "deny"
[callers."key:dave"]
reach = "account"
[[rules]]
caller = "key:dave"
tool = "get-dataset-items"
action = "deny"
"""
ABSENT = "zzzzzzzzzzzzzzzzz"


@pytest.fixture
async def api(temporal: Client, sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An API with three callers; the policy lets one reach all of the account."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    keys = ",".join(f"{name}:{key}" for name, key in KEYS.items())
    async with serving_api(temporal, api_settings(sandbox, api_keys=keys, policy_file=policy), whole=True) as api:
        yield api


def tools_of_the_account() -> list[tuple[str, Tool]]:
    """Every tool, of every mode, that reads or changes runs and storages. A new one is tried as well."""
    return [
        (mode, tool)
        for mode in MODES
        for tool in base_tools(mode).tools.values()
        if not tool.in_front
        and tool.category not in OF_THE_ACCOUNT
        and (tool.category in (Category.RUNS, Category.STORAGE) or ids_of(tool))
    ]


def ids_of(tool: Tool) -> set[str]:
    """The arguments with which the tool names a run or storage."""
    schema: dict[str, Any] = {**tool.input_schema}
    return {name for name in schema.get("properties", {}) if name.endswith("Id")} - NO_ID


def required(tool: Tool) -> set[str]:
    """The arguments that a call must have."""
    schema: dict[str, Any] = {**tool.input_schema}
    return set(schema.get("required", []))


def calls_with(tool: Tool, ids: dict[str, str]) -> list[dict[str, Any]]:
    """Arguments of one call for each way to name something, or of one call that lists."""
    schema: dict[str, Any] = {**tool.input_schema}
    needed = {name: value for name, value in OTHERS.items() if name in schema.get("properties", {})}
    missing = required(tool) - needed.keys() - ids.keys() - NO_ID
    assert not missing, f"{tool.name}: say in this test what {missing} may be"
    named = ids_of(tool)
    assert named <= ids.keys(), f"{tool.name}: say in this test what {named - ids.keys()} may be"
    return [needed | {name: ids[name]} for name in sorted(named)] or [needed]


async def made_by(api: httpx.AsyncClient, caller: dict[str, str]) -> dict[str, str]:
    """The ids of a run of the caller and of its storages, by the arguments that name such."""
    run = (await completed(api, sleeper_call(0, message="of-alice"), **caller))["task"]["run"]
    return {
        "runId": run["run_id"],
        "datasetId": run["dataset_id"],
        "keyValueStoreId": run["key_value_store_id"],
    }


async def answers(api: httpx.AsyncClient, caller: dict[str, str], ids: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What every tool answers about these ids."""
    bodies = {
        f"{mode} {tool.name} {number}": {"tool": tool.name, "mode": mode, "arguments": arguments}
        for mode, tool in tools_of_the_account()
        if not NO_ID & required(tool)
        for number, arguments in enumerate(calls_with(tool, ids))
    }
    assert len(bodies) >= 2 * 14
    results = await asyncio.gather(*(completed(api, body, **caller) for body in bodies.values()))
    return {name: answer["result"] for name, answer in zip(bodies, results, strict=True)}


async def test_no_tool_reaches_what_another_caller_has_made(api: httpx.AsyncClient) -> None:
    ids = await made_by(api, ALICE)
    own = await answers(api, ALICE, ids)
    assert {name: result["error"] for name, result in own.items() if result["is_error"]} == {}
    seen = [
        name
        for name, result in own.items()
        if any(given in json.dumps(result) for given in (*ids.values(), "of-alice"))
    ]
    assert own.keys() - set(seen) == {"apify get-actor-run-log 0"}  # Its lines name no run.
    foreign = await answers(api, BOB, ids)
    absent = await answers(api, BOB, dict.fromkeys(ids, ABSENT))
    assert foreign.keys() == own.keys()
    for name, result in foreign.items():
        text = json.dumps(result)
        if "-list" in name:
            assert not result["is_error"], name
            assert not any(given in text for given in ids.values()), name
            continue
        assert result["error"]["category"] == "not_found", name
        for given in ids.values():
            text = text.replace(given, ABSENT)
        assert json.loads(text)["error"] == absent[name]["error"], name
    assert {name for name, result in (await answers(api, CAROL, ids)).items() if result["is_error"]} == set()


async def read_by(api: httpx.AsyncClient, caller: dict[str, str], uri: str) -> str:
    """The text of a resource, or the message of the error."""
    async with api_client(str(api.base_url), caller["Authorization"].removeprefix("Bearer ")) as http:
        try:
            answer = await Wire(http, MODERN, "?mode=apify&tools=").request("resources/read", {"uri": uri})
        except WireError as error:
            return str(error).replace(uri, "URI")
    return answer["contents"][0]["text"]


async def test_no_resource_reaches_what_another_caller_has_made(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    ids = await made_by(api, ALICE)
    values = {"storeId": ids["keyValueStoreId"], "recordKey": "INPUT", **ids}
    for address in ADDRESSES:
        path = "/".join(address.path).format(**values)
        uri, absent = (f"{sandbox.url}/v2/{one}" for one in (path, path.replace(ids["runId"], ABSENT)))
        assert "Failed to read" not in await read_by(api, ALICE, uri), path
        assert "Failed to read" not in await read_by(api, CAROL, uri), path
        refused = await read_by(api, BOB, uri)
        assert "Failed to read URI: HTTP 404: " in refused, path
        if absent != uri:
            assert refused == await read_by(api, BOB, absent), path
        is_denied = "HTTP 403: " in await read_by(api, DAVE, uri)
        assert is_denied is (address.tool == "get-dataset-items"), path
    for other in ("users/me", "acts/outlast~sleeper", "actor-tasks", f"datasets/{ids['datasetId']}/../../users/me"):
        assert "Failed to read" in await read_by(api, ALICE, f"{sandbox.url}/v2/{other}?token={sandbox.token}"), other


NAMES = pytest.mark.parametrize(
    ("mode", "actor_name", "task_name"), [("apify", "actorId", "taskId"), ("default", "actor", "actorTaskId")]
)
"""What the modes call an Actor, and a saved task, among the arguments of a call."""


@NAMES
async def test_saved_tasks_and_schedules_are_for_those_who_reach_the_account(
    api: httpx.AsyncClient, sandbox: Sandbox, mode: str, actor_name: str, task_name: str
) -> None:
    """Another's cannot be told from one that does not exist, and nothing is made or run."""
    name = f"of-carol-{mode}"
    made = {actor_name: "outlast/sleeper", "name": name}
    schedule = {"cronExpression": "@yearly", "actions": [{actor_name: "outlast/sleeper"}], "name": name}
    create = {"create-actor-task": made, "create-schedule": schedule}

    async def answer(tool: str, arguments: dict[str, Any], caller: dict[str, str]) -> dict[str, Any]:
        """The result, or what the door says."""
        body = {"tool": tool, "mode": mode, "arguments": arguments}
        said = (await api.post("/v1/tasks", json=body, headers={**caller, "Prefer": "wait=60"})).json()
        return said.get("result") or said

    theirs = [await answer(tool, given, CAROL) for tool, given in create.items()]
    ids = {**theirs[0]["structured"], **theirs[1]["structured"]}
    tools = [tool for tool in base_tools(mode).tools.values() if tool.category in OF_THE_ACCOUNT]
    assert len(tools) == {"apify": 9, "default": 13}[mode]
    runs = sandbox.counters["startsAccepted"]
    for tool in tools:
        tries = (
            [create[tool.name]]
            if tool.name in create
            else [dict.fromkeys(required(tool), value) for value in (name, ids[next(iter(required(tool)))], ABSENT)]
            if required(tool)
            else [{}]
        )
        refused = [await answer(tool.name, given, BOB) for given in tries]
        assert {one["error"]["category"] for one in refused} == {"permission"}, tool.name
        assert len({one["error"]["message"] for one in refused}) == 1, refused
    assert sandbox.counters["startsAccepted"] == runs
    assert not (await answer("get-actor-task", {task_name: ids[task_name]}, CAROL))["is_error"]


@NAMES
async def test_a_rule_about_an_actor_counts_for_what_saved_tasks_and_schedules_run(
    api: httpx.AsyncClient, sandbox: Sandbox, mode: str, actor_name: str, task_name: str
) -> None:
    """However the Actor is written, and when a saved task names it; a name that says nothing is refused."""
    denied = f"denied-{mode}"
    actor_id, task_id = sandbox.actor_id("outlast/big-table"), sandbox.save_task("outlast/big-table", name=denied)
    before, runs = sandbox.saved_objects(), sandbox.counters["startsAccepted"]
    actors = ["outlast/big-table", "outlast~big-table", " 'outlast/big-table'", actor_id]
    tasks = [{task_name: task_id}, {task_name: f"'{task_id}'"}]
    plans: list[tuple[str, dict[str, Any]]] = [("create-actor-task", {actor_name: actor}) for actor in actors]
    plans += [
        (tool, {**more, "actions": [{actor_name: "outlast/sleeper"}, action]})
        for tool, more in (("create-schedule", {"cronExpression": "@yearly"}), ("update-schedule", {"scheduleId": "x"}))
        for action in [*({actor_name: actor} for actor in actors), *tasks]
    ]
    plans += [("call-actor-task", task) for task in tasks if mode == "default"]
    unknown: list[tuple[str, dict[str, Any]]] = [
        ("create-actor-task", {actor_name: "big-table"}),
        ("create-actor-task", {actor_name: "no/such"}),
        ("create-schedule", {"cronExpression": "@yearly", "actions": [{task_name: ABSENT}]}),
    ]
    for category, calls in (("permission", plans), ("not_found", unknown)):
        for tool, arguments in calls:
            body = {"tool": tool, "mode": mode, "arguments": arguments}
            answer = (await api.post("/v1/tasks", json=body, headers={**CAROL, "Prefer": "wait=60"})).json()
            error = answer.get("error") or answer["result"]["error"]  # Refused at the door, or as the rule says.
            assert error["category"] == category, body
    assert (sandbox.saved_objects(), sandbox.counters["startsAccepted"]) == (before, runs)


async def test_what_no_run_of_a_caller_has_made_is_reached_by_the_policy_only(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    dataset = sandbox.new_dataset([{"a": 1}])
    body = {"tool": "get-dataset-items", "arguments": {"datasetId": dataset}}
    for caller, category in ((ALICE, "not_found"), (CAROL, None)):
        error = (await completed(api, body, **caller))["result"].get("error")
        assert (error and error["category"]) == category


async def test_a_run_that_another_has_started_is_neither_aborted_nor_followed_over_mcp(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    task = (
        await api.post("/v1/tasks", json=sleeper_call(60, mode="openai"), headers=ALICE | {"Prefer": "wait=30"})
    ).json()
    run_id = task["result"]["structured"]["runId"]
    async with api_client(str(api.base_url), KEYS["bob"]) as bob:
        wire = Wire(bob, MODERN, "?tools=runs,storage")
        for tool in ("abort-actor-run", "get-actor-run", "get-actor-log"):
            refused = await wire.request("tools/call", {"name": tool, "arguments": {"runId": run_id}})
            assert (refused["isError"], refused["_meta"]["outlast/error"]["category"]) == (True, "not_found"), tool
    assert sandbox.run(run_id)["status"] in ("READY", "RUNNING")
    assert sandbox.run(run_id)["meta"]["userAgent"].count("outlast-by/") == 1
    aborted = await completed(api, {"tool": "abort-actor-run", "arguments": {"runId": run_id}}, **ALICE)
    assert aborted["result"]["structured"]["status"] == "ABORTED"
