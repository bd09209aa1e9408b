"""The yardstick of `tools-list`: the SDK's own server, with static tools. Arguments: port, file with the tools."""

import json
import sys
from pathlib import Path

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

TOOLS = [types.Tool.model_validate(tool) for tool in json.loads(Path(sys.argv[2]).read_text())]


async def list_tools(_ctx: ServerRequestContext, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS, ttl_ms=60_000, cache_scope="private")


if __name__ == "__main__":
    app = Server("static", on_list_tools=list_tools).streamable_http_app()
    uvicorn.run(app, port=int(sys.argv[1]), log_config=None, access_log=False)
