"""`python temporalio_mcp.py ADDRESS COMMAND ARGUMENT...`: a worker whose workflow calls a tool of an MCP server."""

import asyncio
import sys
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from mcp import Client as McpClient
    from mcp import StdioServerParameters, stdio_client
    from temporalio.mcp import MCPPlugin, TemporalMCPClient


@workflow.defn
class CallTool:
    @workflow.run
    async def run(self, tool: str, arguments: dict[str, Any]) -> bool:
        result = await TemporalMCPClient("effects").call_tool(tool, arguments)
        return not result.is_error


async def main() -> None:
    address, command, *arguments = sys.argv[1:]
    parameters = StdioServerParameters(command=command, args=arguments)
    plugin = MCPPlugin({"effects": lambda: McpClient(stdio_client(parameters))})
    client = await Client.connect(address)
    await Worker(client, task_queue="calls", workflows=[CallTool], plugins=[plugin]).run()


if __name__ == "__main__":
    asyncio.run(main())
