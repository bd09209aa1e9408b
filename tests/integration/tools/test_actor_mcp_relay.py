"""What an Actor's MCP server says and asks while its tool runs reaches who called the tool, in each revision."""

import asyncio
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp_types import (
    CallToolResult,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    TextContent,
)

from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN
from tests.support.stacks.service import Service

SERVERS = pytest.mark.parametrize(
    ("server", "state"), [("outlast/toolbox", "first"), ("outlast/older-toolbox", None)], ids=["newer", "older"]
)
"""A server of each revision; the newer one has the state of its question given back."""
REVISIONS = pytest.mark.parametrize("revision", ["legacy", MODERN])


def proxied(server: str, tool: str) -> str:
    return f"{server.replace('/', '--')}-{tool}"


async def task_that_asks(http: httpx.AsyncClient, tool: str) -> dict[str, Any]:
    started = (await http.post("/v1/tasks", json={"tool": tool})).raise_for_status().json()

    async def asks() -> dict[str, Any] | None:
        task = (await http.get(f"/v1/tasks/{started['id']}")).json()
        return task if task["status"] == "input_required" else None

    return await eventually(asks)


async def answer(http: httpx.AsyncClient, task: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The result of the task after it was answered."""
    (key,) = task["input_requests"]
    (await http.post(f"/v1/tasks/{task['id']}/input", json={"answers": {key: given}})).raise_for_status()
    answered = (await http.get(f"/v1/tasks/{task['id']}/result", params={"wait": 60})).json()
    return answered["result"]


@SERVERS
async def test_a_servers_question_is_a_question_of_the_task(
    http: httpx.AsyncClient, server: str, state: str | None
) -> None:
    task = await task_that_asks(http, proxied(server, "ask"))
    (question,) = task["input_requests"].values()
    assert question["message"] == "Which colour?"
    assert question["requested_schema"]["required"] == ["name"]
    result = await answer(http, task, {"action": "accept", "content": {"name": "blue"}})
    assert result["structured"]["answer"] == {"action": "accept", "content": {"name": "blue"}}
    assert result["structured"]["state"] == state, "the newer revision is spoken with a server that knows it"


@SERVERS
async def test_an_answer_that_breaks_the_servers_schema_is_refused(
    http: httpx.AsyncClient, server: str, state: str | None
) -> None:
    task = await task_that_asks(http, proxied(server, "ask"))
    (key,) = task["input_requests"]
    wrong = {"answers": {key: {"action": "accept", "content": {"name": 7}}}}
    assert (await http.post(f"/v1/tasks/{task['id']}/input", json=wrong)).status_code == 422
    declined = await answer(http, task, {"action": "decline"})
    assert declined["structured"] == {
        "answer": {"action": "decline"},
        "state": state,
        "revision": declined["structured"]["revision"],
    }


async def test_a_servers_progress_is_the_tasks(http: httpx.AsyncClient) -> None:
    task = await task_that_asks(http, proxied("outlast/toolbox", "ask"))

    async def told() -> bool:
        shown = (await http.get(f"/v1/tasks/{task['id']}")).json()
        return shown.get("progress") == {"done": 2, "total": 3, "message": "Two of three"}

    await eventually(told)
    await http.post(f"/v1/tasks/{task['id']}/cancel")


@pytest.mark.parametrize("server", ["outlast/toolbox", "outlast/older-toolbox"])
async def test_a_task_with_an_open_question_can_be_cancelled(http: httpx.AsyncClient, server: str) -> None:
    task = await task_that_asks(http, proxied(server, "ask"))
    (await http.post(f"/v1/tasks/{task['id']}/cancel")).raise_for_status()

    async def cancelled() -> bool:
        shown = (await http.get(f"/v1/tasks/{task['id']}")).json()
        return shown["status"] == "cancelled" and "finished_at" in shown

    await eventually(cancelled)


@REVISIONS
@SERVERS
async def test_a_client_of_ours_is_asked_and_told(
    service: Service, server: str, state: str | None, revision: str
) -> None:
    """Both protocol revisions on both sides."""
    said: asyncio.Queue[tuple[float, float | None, str | None]] = asyncio.Queue()
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> ElicitResult:  # given by name
        assert isinstance(params, ElicitRequestFormParams)
        asked.append(params.message)
        return ElicitResult(action="accept", content={"name": "green"})

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        said.put_nowait((progress, total, message))

    url = f"{service.api_url}/mcp?tools={server}"
    async with Client(url, mode=revision, elicitation_callback=elicit) as mcp:
        result = await mcp.call_tool(proxied(server, "ask"), {}, progress_callback=hear)
    assert asked == ["Which colour?"]
    assert result.structured_content is not None
    assert result.structured_content["answer"] == {"action": "accept", "content": {"name": "green"}}
    assert result.structured_content["state"] == state


@REVISIONS
@SERVERS
@pytest.mark.filterwarnings("ignore:.*sampling.*")
async def test_a_clients_model_is_asked(service: Service, server: str, state: str | None, revision: str) -> None:
    async def sample(context: Any, params: Any) -> CreateMessageResult:  # given by name
        assert params.messages[0].content.text == "Say it in one word."
        assert params.max_tokens == 10
        return CreateMessageResult(role="assistant", content=TextContent(text="Outlast"), model="tester")

    url = f"{service.api_url}/mcp?tools={server}"
    async with Client(url, mode=revision, sampling_callback=sample) as mcp:
        result: CallToolResult = await mcp.call_tool(proxied(server, "complete"), {})
    assert result.structured_content is not None
    assert result.structured_content["answer"]["content"]["text"] == "Outlast"
    assert result.structured_content["state"] == state


async def test_a_proxied_tool_is_a_task_and_may_be_waited_for(service: Service) -> None:
    async with Client(f"{service.api_url}/mcp?tools=runs,outlast/toolbox", mode="legacy") as mcp:
        tools = {tool.name: tool for tool in (await mcp.list_tools()).tools}
        listed = tools["outlast--toolbox-ask"]
        assert listed.execution is not None
        assert listed.execution.task_support == "optional"
        assert "waitSecs" in listed.input_schema["properties"]
        unfinished = await mcp.call_tool("outlast--toolbox-ask", {"waitSecs": 0})
        assert unfinished.is_error
        text = "\n".join(block.text for block in unfinished.content if isinstance(block, TextContent))
        assert "is not done yet" in text
        task_id = (unfinished.meta or {})["outlast/taskId"]
        assert "get-task" in text
        await mcp.call_tool("cancel-task", {"taskId": task_id})
