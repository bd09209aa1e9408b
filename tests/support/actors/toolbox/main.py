"""An Actor that is an MCP server: the real SDK, over streamable HTTP, on the port that the platform gives."""

import os
from typing import Any

import mcp_types as types
import uvicorn
from answers import EVERYTHING
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

_OBJECT: dict[str, Any] = {"type": "object"}
calls = 0


async def list_tools(_ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Two pages, so that a client has to turn them."""
    if params is None or params.cursor is None:
        hints = types.ToolAnnotations(title="Show everything", read_only_hint=True)
        show = types.Tool(
            name="show", description="Answers in every shape.", input_schema=_OBJECT, annotations=hints,
            _meta={"openai/outputTemplate": "ui://theirs"},
        )  # fmt: skip
        schema = {"type": "object", "properties": {"times": {"type": "integer"}}, "required": ["times"]}
        count = types.Tool(name="count.calls", description="Counts.", input_schema=schema, output_schema=_OBJECT)
        return types.ListToolsResult(tools=[show, count], next_cursor="2")
    names = ("fail", "crash", "whoami", "ask", "complete")
    rest = [types.Tool(name=name, description=name, input_schema=_OBJECT) for name in names]
    return types.ListToolsResult(tools=rest)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    """One answer for each tool."""
    global calls  # noqa: PLW0603 (the process's own count is what the test asks for)
    calls += 1
    match params.name:
        case "show":
            return {"resultType": "complete", **EVERYTHING, **large_text(params.arguments or {})}
        case "count.calls":
            return {
                "resultType": "complete",
                "content": [],
                "structuredContent": {"calls": calls, "arguments": params.arguments, **large(params.arguments or {})},
            }
        case "fail":
            return {"resultType": "complete", "content": [{"type": "text", "text": "No such page"}], "isError": True}
        case "crash":
            os._exit(7)
        case "whoami":
            names = ("APIFY_TOKEN", "APIFY_META_ORIGIN", "ACTOR_FULL_NAME")
            return {
                "resultType": "complete",
                "content": [],
                "structuredContent": {name: os.environ.get(name) for name in names},
            }
        case "ask":
            await ctx.session.report_progress(2, 3, "Two of three")
            return await asked(ctx, params, "colour", colour_form())
        case "complete":
            return await asked(ctx, params, "words", completion())
        case name:
            raise ValueError(f"There is no tool {name}.")


def large(wanted: dict[str, Any]) -> dict[str, Any]:
    """As much text and as many values as the call asks for."""
    parts = {"text": "x" * wanted.get("characters", 0), "rows": [{}] * wanted.get("rows", 0)}
    return {name: part for name, part in parts.items() if part}


def large_text(wanted: dict[str, Any]) -> dict[str, Any]:
    """Instead of everything, as much text as the call asks for and a picture."""
    if "characters" not in wanted:
        return {}
    return {"content": [{"type": "text", "text": "x" * wanted["characters"]}, EVERYTHING["content"][1]]}


def colour_form() -> types.ElicitRequest:
    """A question to the user."""
    schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message="Which colour?", requested_schema=schema))


def completion() -> types.CreateMessageRequest:
    """A question to the client's model."""
    text = types.TextContent(text="Say it in one word.")
    message = types.SamplingMessage(role="user", content=text)
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=10))


async def asked(ctx: Any, params: types.CallToolRequestParams, key: str, question: Any) -> Any:
    """Ask as the protocol revision does it: by another request meanwhile, or by an answer that wants another call."""
    if ctx.protocol_version < "2026":
        kind = types.ElicitResult if isinstance(question, types.ElicitRequest) else types.CreateMessageResult
        answer = await ctx.session.send_request(question, kind, metadata=_during(ctx))
    elif not params.input_responses:
        asking = question.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {"resultType": "input_required", "inputRequests": {key: asking}, "requestState": "first"}
    else:
        answer = params.input_responses[key]
    said = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return structured({"answer": said, "state": params.request_state, "revision": ctx.protocol_version})


def _during(ctx: Any) -> ServerMessageMetadata:
    return ServerMessageMetadata(related_request_id=ctx.request_id)


def structured(content: dict[str, Any]) -> dict[str, Any]:
    """An answer without any words."""
    return {"resultType": "complete", "content": [], "structuredContent": content}


async def refuse_the_newer_revision(ctx: Any, call_next: Any) -> Any:
    """As a server does that knows nothing of it."""
    if ctx.method == "server/discover":
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found")
    return await call_next(ctx)


def cutting(app: Any) -> Any:
    """The application with half of a character wherever a body has `@half@`, which no JSON library writes."""

    async def cut(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [header for header in message["headers"] if header[0] != b"content-length"]
                message = {**message, "headers": kept}
            elif message["type"] == "http.response.body":
                message = {**message, "body": message.get("body", b"").replace(b"@half@", b"\\ud83d")}
            await send(message)

        await app(scope, receive, sent)

    return cut


def main() -> None:
    """Serve until the platform ends this process."""
    server = Server("toolbox", on_list_tools=list_tools, on_call_tool=call_tool)
    if "older" in os.environ["ACTOR_FULL_NAME"]:
        server.middleware.append(refuse_the_newer_revision)
    port = int(os.environ["ACTOR_STANDBY_PORT"])
    uvicorn.run(cutting(server.streamable_http_app()), port=port, log_level="warning")


if __name__ == "__main__":
    main()
