"""Reuse through the other doors: MCP, and the operator's policy."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from tests.integration.reuse.conftest import ANN, BOB
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.http.api_client import bearer
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox

POLICY = """
[[reuse]]
caller = "key:ann"
tool = "outlast/sleeper"
max_age = "1h"

[[reuse]]
tool = "*"
max_age = "1s"

[[rules]]
caller = "key:bob"
tool = "call-actor"
action = "ask"
"""


@pytest.fixture
async def ruled_api(temporal: Client, sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An API whose policy says what is reused."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    settings = api_settings(sandbox, api_keys=f"ann:{ANN},bob:{BOB}", policy_file=policy)
    async with serving_api(temporal, settings) as api:
        api.headers.update(bearer(ANN))
        yield api


async def test_the_policy_has_calls_reused_that_do_not_ask(ruled_api: httpx.AsyncClient) -> None:
    by_tool = {"tool": "outlast--sleeper", "arguments": {"seconds": 0, "message": "by policy"}}
    for body in (sleeper_call(0, message="by policy"), by_tool):
        first = await completed(ruled_api, body)
        again = await completed(ruled_api, body)
        assert (again["task"]["id"], again["task"]["reused"]["joined"]) == (first["task"]["id"], False)
        fresh = await completed(ruled_api, body | {"options": {"reuse": {"refresh": True}}})
        assert fresh["task"]["id"] != first["task"]["id"]


async def test_a_policy_for_all_tools_leaves_those_alone_that_act(ruled_api: httpx.AsyncClient) -> None:
    body = {"tool": "abort-actor-run", "arguments": {"runId": "Abcdefgh123456789"}}
    answers = [await completed(ruled_api, body) for _ in range(2)]
    assert answers[0]["task"]["id"] != answers[1]["task"]["id"]


async def test_a_call_that_somebody_approves_is_its_own(ruled_api: httpx.AsyncClient) -> None:
    body = sleeper_call(0, message="approved") | {"options": {"reuse": {"max_age": "1h"}}}
    tasks = [await started(ruled_api, body, **bearer(BOB)) for _ in range(2)]
    assert tasks[0] != tasks[1]
    for task_id in tasks:
        assert (await ruled_api.post(f"/v1/tasks/{task_id}/cancel", headers=bearer(BOB))).status_code == 202


def reusing(**arguments: Any) -> dict[str, Any]:
    return {
        "name": "outlast--sleeper",
        "arguments": arguments,
        "_meta": {"outlast/options": {"reuse": {"max_age": "1h"}}},
    }


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_model_reads_how_old_the_answer_is(api: httpx.AsyncClient, era: str) -> None:
    wire = Wire(api, era)
    if era == LEGACY:
        await wire.initialize()
    first, again = [await wire.request("tools/call", reusing(seconds=0, message=era)) for _ in range(2)]
    assert "outlast/reused" not in first["_meta"]
    assert again["_meta"]["outlast/taskId"] == first["_meta"]["outlast/taskId"]
    assert again["_meta"]["outlast/reused"]["joined"] is False
    assert again["content"][:-1] == first["content"]
    assert again["content"][-1]["text"].startswith("This answer is ")
    assert again["structuredContent"] == first["structuredContent"]


async def test_who_gives_up_a_joined_call_leaves_the_others_theirs(api: httpx.AsyncClient) -> None:
    run_input = {"seconds": 30, "message": "shared"}
    options = {"reuse": {"max_age": "1h"}}
    first = await started(api, {"tool": "outlast--sleeper", "arguments": run_input, "options": options})
    wire = Wire(api, LEGACY)
    await wire.initialize()
    joining = reusing(**run_input)
    joining["_meta"]["progressToken"] = "p"
    given_up = False
    async with aclosing(wire.messages("tools/call", joining, request_id=4_711)) as messages:
        async for message in messages:
            if message.get("method") == "notifications/progress":
                await wire.notify("notifications/cancelled", {"requestId": 4_711})
                given_up = True
                break
    assert given_up
    assert (await result_of(api, first))["task"]["status"] == "completed"
