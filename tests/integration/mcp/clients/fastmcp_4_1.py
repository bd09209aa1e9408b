"""Run by the Python of an environment with `fastmcp` and `fastmcp-tasks`: tasks of the newer protocol revision.

Prints JSON.

Arguments: `http URL`, or `stdio COMMAND...`.
"""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp_tasks.client import call_tool_task


async def on_question(message, response_type, params, context):
    return {"confirm": True} if "Delete" in message else {"name": "Ann"}


async def main() -> None:
    if sys.argv[1] == "http":
        transport = StreamableHttpTransport(sys.argv[2])
    else:
        transport = StdioTransport(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ))
    async with Client(transport, elicitation_handler=on_question) as client:
        print(json.dumps(await seen(client)))


async def seen(client: Client) -> dict:
    await client.list_tools()
    plain = await client.call_tool("greet", {"name": "Ann"})
    call = {"actor": "outlast/sleeper", "input": {"seconds": 0.5, "steps": 2}}
    tasked = await client.call_tool("call-actor", call)
    handle = await call_tool_task(client, "slow_compute", {"seconds": 60, "label": "x"})
    first = (await handle.status()).status
    await handle.cancel()
    last = (await handle.wait(timeout=30)).status
    asked = await client.call_tool("confirm_delete", {"filename": "a.txt"})
    composed = await client.call_tool("test_tool_with_task", {})
    return {
        "plain": plain.content[0].text,
        "run": tasked.structured_content["status"],
        "statuses": [first, last],
        "asked": asked.content[0].text,
        "composed": composed.content[0].text,
    }


asyncio.run(main())
