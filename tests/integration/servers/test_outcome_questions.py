"""Calls with an unknown outcome over MCP: clients that can ask their users ask whether they were executed."""

import json
import sys
from pathlib import Path
from typing import Any, Literal

import httpx
import mcp_types
import pytest
from mcp import Client
from mcp.client import ClientRequestContext

from tests.support.mcp import effects_server
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.stacks.service import Service

service = service_fixture(scope="module", settings_from="settings")
http = http_fixture()
ASK = "It is unknown whether effects__die was executed"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("effects")
    options = {"session": "call"}
    server = {"command": sys.executable, "args": [effects_server.__file__], "outlast": options}
    file: Path = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"effects": server}}))
    return {"OUTLAST_MCP_SERVERS_FILE": str(file)}


class User:
    """Answers questions, in this order; declines when there are no more answers."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        del context
        self.asked.append(params.message)
        if not self.answers:
            return mcp_types.ElicitResult(action="decline")
        return mcp_types.ElicitResult(action="accept", content=self.answers.pop(0))


async def died(service: Service, mode: Literal["legacy", "auto"], user: User | None) -> mcp_types.CallToolResult:
    async with Client(f"{service.api_url}/mcp?tools=effects", mode=mode, elicitation_callback=user) as client:
        return await client.call_tool("effects__die", {})


def text_of(result: mcp_types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))


async def resolution_of(http: httpx.AsyncClient, result: mcp_types.CallToolResult) -> dict[str, Any] | None:
    task_id = (result.meta or {})["outlast/taskId"]
    return (await http.get(f"/v1/tasks/{task_id}")).json().get("resolution")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_user_says_what_became_of_a_call(
    service: Service, http: httpx.AsyncClient, mode: Literal["legacy", "auto"]
) -> None:
    user = User({"outcome": "done", "note": "I looked."})
    result = await died(service, mode, user)
    assert not result.is_error
    assert "was executed" in text_of(result)
    assert [message.startswith(ASK) for message in user.asked] == [True]
    resolution = await resolution_of(http, result)
    assert resolution is not None
    assert (resolution["outcome"], resolution["note"]) == ("done", "I looked.")


async def test_a_retry_is_another_task_which_asks_again(service: Service, http: httpx.AsyncClient) -> None:
    user = User({"outcome": "retry"}, {"outcome": "not_done"})
    result = await died(service, "legacy", user)
    assert result.is_error
    assert "was not executed" in text_of(result)
    assert len(user.asked) == 2
    resolution = await resolution_of(http, result)
    assert resolution is not None
    assert resolution["outcome"] == "not_done"


@pytest.mark.parametrize("user", [None, User()])
async def test_without_an_answer_the_outcome_stays_unknown(
    service: Service, http: httpx.AsyncClient, user: User | None
) -> None:
    result = await died(service, "auto", user)
    assert result.is_error
    assert ASK in text_of(result)
    assert await resolution_of(http, result) is None
