"""An Actor may be named by its addresses, in any case of letters, and with a build; rules mean it all the same."""

import httpx
import pytest

from tests.integration.tools.conftest import ToolCaller
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.service import Service

ADDRESS = "https://apify.com/outlast/cutter"
TOKEN = "apify_api_tokenInAnAddress0123456789"


@pytest.mark.parametrize(
    "actor",
    [ADDRESS, f"{ADDRESS}/?fpr=a", "HTTPS://WWW.APIFY.COM/OUTLAST/CUTTER", "Outlast/Cutter", f"{ADDRESS}:latest"],
)
async def test_an_address_runs_its_actor(call: ToolCaller, actor: str) -> None:
    answer = await call("call-actor", actor=actor, input={"a": 1})
    assert answer.error is None
    assert answer.structured["items"] == [{"a": 1}]


async def test_other_tools_take_it_too(call: ToolCaller) -> None:
    assert (await call("fetch-actor-details", actor=ADDRESS)).structured["actor"]["fullName"] == "outlast/cutter"
    assert (await call("get-actor-run-list", actor=ADDRESS)).error is None
    created = await call("create-actor-task", actor=ADDRESS, name="by-address", input={"a": 1})
    assert created.error is None


async def test_the_task_has_the_name_and_no_token(http: httpx.AsyncClient, service: Service) -> None:
    actor = f"https://api.apify.com/v2/acts/outlast~cutter/runs?token={TOKEN}"
    answer = await http.post("/v1/tasks", json={"tool": "call-actor", "arguments": {"actor": actor, "input": {}}})
    assert answer.json()["actor"] == "outlast/cutter"
    history = await (await connect(service.temporal_address)).get_workflow_handle(answer.json()["id"]).fetch_history()
    assert TOKEN not in history.to_json()


async def test_a_build_is_named_once(http: httpx.AsyncClient) -> None:
    arguments = {"actor": "outlast/cutter:latest", "input": {}, "callOptions": {"build": "0.1"}}
    refused = await http.post("/v1/tasks", json={"tool": "call-actor", "arguments": arguments})
    assert refused.status_code == 422
    assert refused.json()["error"]["violations"][0]["path"] == "/callOptions/build"
    unknown = {"actor": "outlast/cutter:search", "input": {}}
    answer = await http.post("/v1/tools/call-actor/call", json={"arguments": unknown})
    assert "is not an MCP server" in answer.json()["result"]["error"]["message"]


@pytest.mark.parametrize("actor", [ADDRESS, f"{ADDRESS}:latest", "OUTLAST/CUTTER", "outlast/cutter:0.1.1"])
async def test_a_rule_means_the_actor_however_it_is_written(service: Service, actor: str) -> None:
    settings = api_settings(service.sandbox, permissions="*:outlast/cutter=deny")
    async with serving_api(await connect(service.temporal_address), settings) as http:
        answer = await http.post("/v1/tools/call-actor/call", json={"arguments": {"actor": actor, "input": {}}})
        assert answer.json()["result"]["error"]["category"] == "permission"
