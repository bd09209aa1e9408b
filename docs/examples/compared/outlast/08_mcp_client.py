import asyncio

from mcp import Client


async def main() -> None:
    async with Client("http://127.0.0.1:8400/mcp") as client:
        print(await client.call_tool("stock", {"item": "ticket"}))


asyncio.run(main())
