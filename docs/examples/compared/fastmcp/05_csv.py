import asyncio
import csv

from fastmcp import Client


async def main() -> None:
    limit = asyncio.Semaphore(25)

    async def call(item: str) -> tuple[str, int]:
        async with limit:
            return item, (await client.call_tool("stock", {"item": item})).data

    with open("items.csv") as file:
        items = [row["item"] for row in csv.DictReader(file)]
    async with Client("http://127.0.0.1:8000/mcp") as client:
        rows = await asyncio.gather(*map(call, items))
    with open("results.csv", "w") as file:
        csv.writer(file).writerows([("item", "result"), *rows])


asyncio.run(main())
