"""An MCP server without an SDK, which would not let these messages pass."""

import asyncio
import json
import os
from typing import Any

import uvicorn

OBJECT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOLS: list[Any] = [
    {"name": "answer", "description": "Answers as it is told.", "inputSchema": OBJECT},
    {"name": "without", "description": "No schema."},
    {"name": "null", "inputSchema": None},
    {"name": "list", "inputSchema": []},
    {"name": "array", "inputSchema": {"type": "array"}},
    {"description": "No name.", "inputSchema": OBJECT},
    {"name": 7, "inputSchema": OBJECT},
    None,
    "a text",
    {"name": "ask", "description": None, "title": 5, "inputSchema": OBJECT, "outputSchema": [], "icons": "no"},
    {"name": "bare", "inputSchema": {}, "annotations": {"readOnlyHint": "maybe"}, "_meta": 1, "execution": 3},
    {"name": "answer", "description": "The second of this name.", "inputSchema": OBJECT},
    {"name": "loose", "inputSchema": {"type": ["object", "null"], "properties": [{"name": "a"}], "required": "a"}},
    {"name": "faulty", "inputSchema": {"properties": {"a": {"type": "strng", "$ref": "#/nowhere"}, "b": None}}},
]
PAGES: dict[Any, Any] = {None: {"tools": TOOLS[:9], "nextCursor": 2}, "2": {"tools": TOOLS[9:], "nextCursor": ""}}
ANSWERS: dict[str, Any] = {
    "blocks": {
        "content": [
            {"type": "text", "text": "done"},
            {"type": "new_thing", "value": {"a": 1}},
            {"type": "text", "text": None},
            {"type": "text", "text": 7},
            {"type": "text"},
            {"type": "image", "data": "/9j/4AAQSkZJRgABAQAAAQABAAD/2Q=="},
            {"type": "text", "text": "kept", "annotations": "no"},
            {"type": "resource", "resource": {"uri": "a://b"}},
            {"type": "resource_link", "uri": "a://b"},
            "a text",
            None,
            ["x"],
        ],
        "structuredContent": ["rows"],
        "isError": None,
        "_meta": None,
    },
    "text": {"content": "just a text"},
    "block": {"content": {"type": "text", "text": "one block"}, "structuredContent": None, "resultType": None},
    "none": {"content": None, "structuredContent": {"ok": True}},
    "error": {"content": [{"type": "text", "text": "no luck"}], "isError": "true", "resultType": "new"},
    "text_id": {"content": [{"type": "text", "text": "id as a text"}]},
    "null": None,
}
calls = 0
answers: dict[str, asyncio.Future[Any]] = {}


async def result_of(method: str, params: Any) -> Any:
    """The result of a request."""
    global calls  # noqa: PLW0603 (the process's own count is what the test asks for)
    match method:
        case "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": None, "serverInfo": {"name": "rough"}}
        case "tools/list":
            return PAGES[(params or {}).get("cursor")]
        case "tools/call":
            calls += 1
            if params["name"] not in ("answer", "ask"):
                return {"content": [], "structuredContent": {"calls": calls}}
            return ANSWERS[params["arguments"]["as"]]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers JSON-RPC over HTTP."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if scope["method"] != "POST":
        await respond(send, 405 if scope["method"] == "GET" else 200, None)
        return
    request = json.loads(body)
    if "method" not in request:
        answers.pop(request["id"]).set_result(request)
        await respond(send, 202, None)
    elif "id" not in request:
        await respond(send, 202, None)
    elif request["method"] == "server/discover":
        error = {"code": -32601, "message": "Method not found"}
        await respond(send, 200, {"jsonrpc": "2.0", "id": request["id"], "error": error})
    elif request["method"] == "tools/call" and request["params"]["name"] == "ask":
        await ask(send, request["id"])
    else:
        result = await result_of(request["method"], request.get("params"))
        as_text = (request.get("params") or {}).get("arguments", {}).get("as") == "text_id"
        own_id = str(request["id"]) if as_text else request["id"]
        await respond(send, 200, {"jsonrpc": "2.0", "id": own_id, "result": result})


async def ask(send: Any, request_id: Any) -> None:
    """A question without a schema, in the middle of a call."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    answers["q1"] = asyncio.get_running_loop().create_future()
    question = {"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {"message": None}}
    await event(send, question, more=True)
    answer = await answers["q1"] if "q1" in answers else None
    content = [{"type": "text", "text": json.dumps(answer)}]
    await event(send, {"jsonrpc": "2.0", "id": request_id, "result": {"content": content}}, more=False)


async def event(send: Any, message: Any, *, more: bool) -> None:
    """A server-sent event."""
    body = f"event: message\ndata: {json.dumps(message)}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def respond(send: Any, status: int, message: Any) -> None:
    """A whole response."""
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if message is None else json.dumps(message).encode()})


if __name__ == "__main__":
    uvicorn.run(application, port=int(os.environ["ACTOR_STANDBY_PORT"]), log_level="warning")
