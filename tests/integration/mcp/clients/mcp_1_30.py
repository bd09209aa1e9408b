"""Run by the Python of an environment with `mcp` 1.30: tasks of the older protocol revision.

Prints what it saw, as JSON.

Arguments: `http URL`, or `stdio COMMAND...`.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def on_question(_context, params):
    return types.ElicitResult(action="accept", content={"confirm": True})


async def main() -> None:
    async with AsyncExitStack() as stack:
        if sys.argv[1] == "http":
            streams = await stack.enter_async_context(streamable_http_client(sys.argv[2]))
        else:
            command = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ))
            streams = await stack.enter_async_context(stdio_client(command))
        session = await stack.enter_async_context(
            ClientSession(streams[0], streams[1], elicitation_callback=on_question)
        )
        await session.initialize()
        print(json.dumps(await seen(session)), flush=True)
        # This client breaks when it hears of a task while it closes; what it has seen is told.
        os._exit(0)


async def seen(session: ClientSession) -> dict:
    tools = (await session.list_tools()).tools
    plain = await session.call_tool("greet", {"name": "Ann"})
    call = {"actor": "outlast/sleeper", "input": {"seconds": 0.5, "steps": 2}}
    created = await session.experimental.call_tool_as_task("call-actor", call)
    statuses = [state.status async for state in session.experimental.poll_task(created.task.taskId)]
    result = await session.experimental.get_task_result(created.task.taskId, types.CallToolResult)
    asking = await session.experimental.call_tool_as_task("confirm_delete", {"filename": "a.txt"})
    asked = await session.experimental.get_task_result(asking.task.taskId, types.CallToolResult)
    stopped = await session.experimental.call_tool_as_task("slow_compute", {"seconds": 60})
    cancelled = await session.experimental.cancel_task(stopped.task.taskId)
    listed = await session.experimental.list_tasks()
    return {
        "support": {tool.name: tool.execution.taskSupport for tool in tools if tool.execution},
        "plain": plain.content[0].text,
        "statuses": statuses,
        "run": result.structuredContent["status"],
        "asked": asked.content[0].text,
        "cancelled": cancelled.status,
        "listed": created.task.taskId in [task.taskId for task in listed.tasks],
    }


asyncio.run(main())
