"""`python fastmcp_app.py PORT REDIS_URL CONCURRENCY`: tools that run as background tasks, in the same process."""

import sys
from typing import Any

import sandbox_calls
from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

mcp = FastMCP("peer")
mcp.add_extension(TasksExtension(url=sys.argv[2], concurrency=int(sys.argv[3])))


@mcp.tool(task=True)
async def read(dataset_id: str) -> list[dict[str, Any]]:
    return await sandbox_calls.read_items(dataset_id)


@mcp.tool(task=True)
async def run(call_id: str, seconds: float) -> list[dict[str, Any]]:
    run_id = await sandbox_calls.start_run(call_id, seconds)
    return await sandbox_calls.read_items(await sandbox_calls.await_run(run_id))


if __name__ == "__main__":
    mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True, show_banner=False)
