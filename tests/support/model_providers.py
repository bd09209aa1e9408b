"""Stand-ins for the model providers, over real HTTP: a model that calls one tool and then repeats what it was answered.

They refuse what the providers refuse: names and schemas of tools, calls that stay without a result.
"""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FIELD = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_REFUSED = {"oneOf", "anyOf", "allOf", "not", "enum"}
CALL_ID = "call_0123456789"


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the test run's own signal handlers alone."""
        yield


def _check(name: str, schema: dict[str, Any]) -> None:
    fits = _NAME.fullmatch(name) and schema["type"] == "object" and not _REFUSED & schema.keys()
    if not fits or not all(_FIELD.fullmatch(field) for field in schema["properties"]):
        raise HTTPException(400, f"invalid_request_error: tool {name}")


def providers(tool: str, arguments: str) -> FastAPI:
    """An application that speaks the three protocols; its models call `tool` with `arguments`."""
    app = FastAPI()

    @app.post("/v1/messages")
    def messages(body: dict[str, Any]) -> dict[str, Any]:
        return _claude(body, tool, arguments)

    @app.post("/v1/responses")
    def responses(body: dict[str, Any]) -> dict[str, Any]:
        return _response(body, tool, arguments)

    @app.post("/v1/chat/completions")
    def completions(body: dict[str, Any]) -> dict[str, Any]:
        return _completion(body, tool, arguments)

    return app


def _claude(body: dict[str, Any], tool: str, arguments: str) -> dict[str, Any]:
    for offered in body["tools"]:
        _check(offered["name"], offered["input_schema"])
    last = body["messages"][-1]["content"]
    block: dict[str, Any] = {"type": "tool_use", "id": CALL_ID, "name": tool, "input": json.loads(arguments)}
    if not isinstance(last, str):
        (result,) = last
        assert (result["tool_use_id"], result["is_error"]) == (CALL_ID, False)
        block = {"type": "text", "text": result["content"][0]["text"], "citations": None}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _response(body: dict[str, Any], tool: str, arguments: str) -> dict[str, Any]:
    for offered in body["tools"]:
        _check(offered["name"], offered["parameters"])
    last = body["input"][-1]
    item: dict[str, Any] = {"type": "function_call", "id": "fc_1", "call_id": CALL_ID, "name": tool}
    item |= {"arguments": arguments, "status": "completed"}
    if last.get("type") == "function_call_output":
        assert last["call_id"] == CALL_ID
        text = {"type": "output_text", "text": last["output"], "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": body["model"],
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _completion(body: dict[str, Any], tool: str, arguments: str) -> dict[str, Any]:
    for offered in body["tools"]:
        _check(offered["function"]["name"], offered["function"]["parameters"])
    last = body["messages"][-1]
    calls = [{"id": CALL_ID, "type": "function", "function": {"name": tool, "arguments": arguments}}]
    message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": calls}
    if last["role"] == "tool":
        assert last["tool_call_id"] == CALL_ID
        message = {"role": "assistant", "content": last["content"]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c_1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}


@asynccontextmanager
async def running_providers(tool: str, arguments: str) -> AsyncIterator[dict[str, str]]:
    """Serve them until the end of the block; gives the environment in which the providers' libraries find them."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(providers(tool, arguments), log_config=None, access_log=False, lifespan="off")
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "none",
            "NO_PROXY": "127.0.0.1",
        }
    finally:
        server.should_exit = True
        await serving
        listener.close()
