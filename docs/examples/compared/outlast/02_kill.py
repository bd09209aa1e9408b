import os

import httpx
from outlast import SyncToolContext, tool


def post(path: str) -> str:
    response = httpx.post(os.environ["SHOP_URL"] + path, timeout=60)
    return response.raise_for_status().json()


@tool
def order(item: str, card: str, ctx: SyncToolContext) -> str:
    """Order an item."""
    ctx.step(post, f"/reserve/{item}")
    receipt = ctx.step(post, f"/charge/{card}")
    ctx.step(post, f"/ship/{item}")
    return receipt
