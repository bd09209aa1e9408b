import asyncio

from fastmcp import Client


async def main() -> None:
    async with Client("http://127.0.0.1:8000/mcp") as client:
        answer = await client.call_tool("stock", {"item": "ticket"})
        print(answer.data)


asyncio.run(main())
