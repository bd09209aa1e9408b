"""The tool of `outlast demo`: an order whose worker is killed after the charge. The demo's process is the shop."""

import http.client
import json
import os
from urllib.parse import urlsplit

from outlast import ToolContext, tool

_TIMEOUT_SECONDS = 30


@tool(backoff=0.1)
async def order(item: str, shop: str, ctx: ToolContext) -> str:
    """Order an item from the shop at an address: reserve it, charge the card, ship it."""
    await ctx.step(ask, shop, "reserve", item, ctx.key("reserve"))
    await ctx.step(ask, shop, "charge", item, ctx.key("charge"))
    await ctx.step(ask, shop, "ship", item, ctx.key("ship"))
    return f"{item}: reserved, charged, and shipped"


def ask(shop: str, what: str, item: str, key: str) -> str:
    """Send one request to the shop. Raises `OSError` and `HTTPException`."""
    connection = http.client.HTTPConnection(urlsplit(shop).netloc, timeout=_TIMEOUT_SECONDS)
    try:
        body = json.dumps({"item": item, "key": key, "worker": os.getpid()})
        connection.request("POST", f"/{what}", body, {"Content-Type": "application/json"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()
