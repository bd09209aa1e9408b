"""An Actor that is an MCP server: the real SDK, over streamable HTTP, on the port that the platform gives."""

import os
from typing import Any

import mcp_types as types
import uvicorn
from answers import EVERYTHING
from mcp.server.lowlevel import Server

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
    rest = [types.Tool(name=name, description=name, input_schema=_OBJECT) for name in ("fail", "crash", "whoami")]
    return types.ListToolsResult(tools=rest)


async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> Any:
    """One answer for each tool."""
    global calls  # noqa: PLW0603 (the process's own count is what the test asks for)
    calls += 1
    match params.name:
        case "show":
            return {"resultType": "complete", **EVERYTHING}
        case "count.calls":
            return {
                "resultType": "complete",
                "content": [],
                "structuredContent": {"calls": calls, "arguments": params.arguments},
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
        case name:
            raise ValueError(f"There is no tool {name}.")


def structured(content: dict[str, Any]) -> dict[str, Any]:
    """An answer without any words."""
    return {"resultType": "complete", "content": [], "structuredContent": content}


def main() -> None:
    """Serve until the platform ends this process."""
    server = Server("toolbox", on_list_tools=list_tools, on_call_tool=call_tool)
    port = int(os.environ["ACTOR_STANDBY_PORT"])
    uvicorn.run(server.streamable_http_app(), port=port, log_level="warning")


if __name__ == "__main__":
    main()
