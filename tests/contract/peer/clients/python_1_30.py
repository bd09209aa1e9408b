"""Run by the Python of an environment with `mcp` 1.30: what a client written for Apify's server does.

Prints what it saw, as JSON, without what is each server's own. Arguments: URL, token.
"""

import asyncio
import json
import os
import sys

import httpx
from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamable_http_client

INPUT = {"seconds": 0.3, "steps": 3, "rows": 2}


async def main() -> None:
    headers = {"Authorization": f"Bearer {sys.argv[2]}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=120, trust_env=False) as http,
        streamable_http_client(sys.argv[1], http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        print(json.dumps(await seen(session)), flush=True)
        # This client breaks when it hears of a task while it closes; what it has seen is told.
        os._exit(0)


async def seen(session: ClientSession) -> dict:
    tools = (await session.list_tools()).tools
    call = await session.call_tool("call-actor", {"actor": "outlast/sleeper", "input": INPUT, "waitSecs": 45})
    run = call.structuredContent
    dataset = run["storages"]["datasets"]["default"]["id"]
    page = await session.call_tool("get-dataset-items", {"datasetId": dataset, "limit": 1})
    text = await session.call_tool("get-actor-run", {"runId": run["runId"], "waitSecs": "0"})
    created = await session.experimental.call_tool_as_task("outlast--sleeper", INPUT)
    statuses = [state.status async for state in session.experimental.poll_task(created.task.taskId)]
    result = await session.experimental.get_task_result(created.task.taskId, types.CallToolResult)
    stopped = await session.experimental.call_tool_as_task("outlast--sleeper", {"seconds": 300})
    cancelled = await session.experimental.cancel_task(stopped.task.taskId)
    return {
        "tools": [(tool.name, tool.title, tool.execution and tool.execution.taskSupport) for tool in tools],
        "run": [run["status"], run["actorName"], sorted(run)],
        "page": [page.structuredContent["totalItemCount"], len(page.structuredContent["items"])],
        "text": json.loads(text.content[0].text)["status"],
        "task": [statuses[-1], result.structuredContent["status"]],
        "cancelled": [cancelled.status, cancelled.statusMessage],
        "refused": [await refused(session, name, given) for name, given in (("nothing", {}), ("get-actor-run", {}))],
        "failed": (await session.call_tool("get-actor-run", {"runId": "nothingHere12345x"})).content[0].text[:40],
    }


async def refused(session: ClientSession, name: str, arguments: dict) -> list:
    try:
        await session.call_tool(name, arguments)
    except McpError as error:
        return [error.error.code, error.error.message.partition("\n")[0].partition(". ")[0].rstrip(".")]
    return []


asyncio.run(main())
