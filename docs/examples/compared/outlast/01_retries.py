import os

import httpx
from outlast import tool


@tool(retries=5)
def stock(item: str) -> int:
    """Number of pieces in stock."""
    response = httpx.get(f"{os.environ['SHOP_URL']}/stock/{item}")
    return response.raise_for_status().json()
