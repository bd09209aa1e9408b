"""One call through each back end, and what it meant: the same words for all of them.

Messages of a provider are made and read with the types of its own library.
"""

import itertools
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import anthropic.types
import httpx
import openai.types.chat
import openai.types.responses
from anthropic.types.tool_result_block_param import Content
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

from outlast.activities.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN, Wire, WireError, text_of

_ids = itertools.count(1)


def new_id() -> str:
    """The id of a call that was never made before."""
    return f"call_{next(_ids):06}"


@dataclass(frozen=True)
class Meaning:
    """What a call has come to. `text` is what a model reads; `task_id` is there when a task was started."""

    text: str
    is_error: bool = False
    category: str | None = None
    retryable: bool | None = None
    task_id: str | None = None
    locator: str | None = None


class Door(Protocol):
    """One back end."""

    async def call(self, tool: str, arguments: dict[str, Any], *, call_id: str, wait: float = 30) -> Meaning: ...
    async def look(self, task_id: str) -> Meaning: ...
    async def cancel(self, task_id: str) -> None: ...
    async def reply(self, task_id: str, key: str, content: dict[str, Any]) -> None: ...


class RestDoor:
    """`/v1/tasks`."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def call(self, tool: str, arguments: dict[str, Any], *, call_id: str, wait: float = 30) -> Meaning:
        headers = {"Idempotency-Key": f"rest-{call_id}", **({"Prefer": f"wait={wait:.0f}"} if wait else {})}
        response = await self._http.post("/v1/tasks", json={"tool": tool, "arguments": arguments}, headers=headers)
        if response.status_code >= 400:
            return _failed(ErrorEnvelope.model_validate(response.json()["error"]), None)
        answered = response.json()
        return _of_answer(answered if "task" in answered else {"task": answered})

    async def look(self, task_id: str) -> Meaning:
        response = await self._http.get(f"/v1/tasks/{task_id}/result", params={"wait": 30})
        return _of_answer(response.raise_for_status().json())

    async def cancel(self, task_id: str) -> None:
        (await self._http.post(f"/v1/tasks/{task_id}/cancel")).raise_for_status()

    async def reply(self, task_id: str, key: str, content: dict[str, Any]) -> None:
        async def asked() -> bool:
            return key in ((await self._http.get(f"/v1/tasks/{task_id}")).json().get("input_requests") or {})

        await eventually(asked)
        body = {"answers": {key: {"action": "accept", "content": content}}}
        (await self._http.post(f"/v1/tasks/{task_id}/input", json=body)).raise_for_status()


class _ModelDoor(ABC):
    """What looks after its tasks with the task tools, as a model does."""

    @abstractmethod
    async def call(self, tool: str, arguments: dict[str, Any], *, call_id: str, wait: float = 30) -> Meaning:
        """What the call means to the model."""

    async def look(self, task_id: str) -> Meaning:
        return await self.call("get-task", {"taskId": task_id, "waitSecs": 30}, call_id=new_id())

    async def cancel(self, task_id: str) -> None:
        assert not (await self.call("cancel-task", {"taskId": task_id}, call_id=new_id())).is_error

    async def reply(self, task_id: str, key: str, content: dict[str, Any]) -> None:
        arguments = {"taskId": task_id, "key": key, "content": content}
        assert not (await self.call("answer-task", arguments, call_id=new_id())).is_error


class McpDoor(_ModelDoor):
    """`/mcp`, as a client that cannot be asked anything."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._wire = Wire(http, MODERN, "?tools=dev,runs")

    async def call(self, tool: str, arguments: dict[str, Any], *, call_id: str, wait: float = 30) -> Meaning:
        meta = {"outlast/wait-secs": wait, "outlast/idempotency-key": f"mcp-{call_id}"}
        try:
            result = await self._wire.request("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})
        except WireError as error:
            return _failed(ErrorEnvelope.model_validate(error.data), None)
        own = result.get("_meta", {})
        error = own.get("outlast/error", {})
        return Meaning(
            text_of(result),
            result["isError"],
            error.get("category"),
            error.get("retryable"),
            own.get("outlast/taskId"),
            result.get("structuredContent", {}).get("locator"),
        )


class AdapterDoor(_ModelDoor):
    """`/v1/adapters/{provider}/calls`. Messages go out and come in as the provider's library knows them."""

    provider: str

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    @abstractmethod
    def message(self, *calls: tuple[str, str, str]) -> Any:
        """What the model says when it calls: ids, tools, arguments as JSON."""

    @abstractmethod
    def outputs(self, append: list[Any]) -> list[tuple[str, str, bool | None]]:
        """Ids, texts and marks of an error (where the protocol has one) of what is appended."""

    async def send(self, message: Any, **body: Any) -> dict[str, Any]:
        """The answer of the endpoint."""
        sent = message.model_dump(mode="json") if hasattr(message, "model_dump") else message
        url = f"/v1/adapters/{self.provider}/calls"
        response = await self._http.post(url, json={"message": sent, **body})
        assert response.status_code == 200, response.text
        return response.json()

    async def call(self, tool: str, arguments: dict[str, Any], *, call_id: str, wait: float = 30) -> Meaning:
        return await self.call_with(tool, json.dumps(arguments), call_id=call_id, wait=wait)

    async def call_with(self, tool: str, arguments: str, *, call_id: str, wait: float = 30) -> Meaning:
        """A call with arguments as text, whatever it is."""
        answered = await self.send(self.message((f"{self.provider}-{call_id}", tool, arguments)), wait=wait)
        ((answered_id, text, marked),) = self.outputs(answered["append"])
        (report,) = answered["calls"]
        assert answered_id == report["id"] == f"{self.provider}-{call_id}"
        said, details = split_details(text)
        assert marked in (None, details.get("is_error", False))
        assert report["is_error"] == details.get("is_error", False)
        error = details.get("error", {})
        task_id = details.get("task", {}).get("id") or report["task_id"]
        return Meaning(
            said,
            details.get("is_error", False),
            error.get("category"),
            error.get("retryable"),
            task_id,
            details.get("locator"),
        )


class AnthropicDoor(AdapterDoor):
    provider = "anthropic"

    def message(self, *calls: tuple[str, str, str]) -> Any:
        blocks: list[Any] = [anthropic.types.TextBlock(type="text", text="I will look.", citations=None)]
        for call_id, tool, arguments in calls:
            given = json.loads(arguments)
            blocks.append(anthropic.types.ToolUseBlock(type="tool_use", id=call_id, name=tool, input=given))
        return anthropic.types.Message(
            id="msg_1",
            type="message",
            role="assistant",
            model="claude",
            content=blocks,
            stop_reason="tool_use",
            usage=anthropic.types.Usage(input_tokens=1, output_tokens=1),
        )

    def outputs(self, append: list[Any]) -> list[tuple[str, str, bool | None]]:
        assert [message["role"] for message in append] == ["user"] * bool(append)
        blocks = [block for message in append for block in message["content"]]
        # The library's own types check the content only when it is read, each block by itself.
        checked = TypeAdapter(list[anthropic.types.ToolResultBlockParam]).validate_python(blocks)
        contents = [TypeAdapter(list[Content]).validate_python(block["content"]) for block in blocks]
        return [
            (block["tool_use_id"], _texts(content), block.get("is_error"))
            for block, content in zip(checked, contents, strict=True)
        ]


class ResponsesDoor(AdapterDoor):
    provider = "openai-responses"

    def message(self, *calls: tuple[str, str, str]) -> Any:
        items: list[Any] = [
            openai.types.responses.ResponseFunctionToolCall(
                type="function_call", call_id=call_id, name=tool, arguments=arguments, id=f"fc_{call_id}"
            )
            for call_id, tool, arguments in calls
        ]
        return openai.types.responses.Response(
            id="resp_1",
            object="response",
            created_at=0,
            model="gpt",
            output=[openai.types.responses.ResponseReasoningItem(id="rs_1", type="reasoning", summary=[]), *items],
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )

    def outputs(self, append: list[Any]) -> list[tuple[str, str, bool | None]]:
        items = TypeAdapter(list[FunctionCallOutput]).validate_python(append)
        assert {item["type"] for item in items} <= {"function_call_output"}
        return [(item.get("call_id") or "", _texts(item["output"]), None) for item in items]


class ChatDoor(AdapterDoor):
    provider = "openai-chat"

    def message(self, *calls: tuple[str, str, str]) -> Any:
        called: list[Any] = [
            openai.types.chat.ChatCompletionMessageFunctionToolCall.model_validate(
                {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
            )
            for call_id, tool, arguments in calls
        ]
        return openai.types.chat.ChatCompletionMessage(role="assistant", content=None, tool_calls=called)

    def outputs(self, append: list[Any]) -> list[tuple[str, str, bool | None]]:
        messages = TypeAdapter(list[openai.types.chat.ChatCompletionToolMessageParam]).validate_python(append)
        return [(message["tool_call_id"], _texts(message["content"]), None) for message in messages]


def split_details(text: str) -> tuple[str, dict[str, Any]]:
    """What a model reads, and the JSON in the last line when there is one."""
    said, _, last = text.rpartition("\n")
    return (said, json.loads(last)) if last.startswith('{"') else (text, {})


def _texts(content: Any) -> str:
    """Every text of an output."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)


def _of_answer(answered: dict[str, Any]) -> Meaning:
    task_id, result = answered["task"]["id"], answered.get("result")
    if result is None:
        return Meaning("", task_id=task_id)
    read = ToolResult.model_validate(result)
    locator = (read.structured or {}).get("locator")
    if read.error is not None:
        return _failed(read.error, task_id)
    return Meaning(read.text, read.is_error, task_id=task_id, locator=str(locator) if locator else None)


def _failed(error: ErrorEnvelope, task_id: str | None) -> Meaning:
    return Meaning(ToolResult.failed(error).text, True, error.category.value, error.retryable, task_id)
