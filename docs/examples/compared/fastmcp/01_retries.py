import os

import httpx
from fastmcp import FastMCP
from fastmcp.server.middleware.error_handling import RetryMiddleware

mcp = FastMCP("shop")
mcp.add_middleware(RetryMiddleware(max_retries=5, retry_exceptions=(httpx.HTTPError,)))


@mcp.tool
def stock(item: str) -> int:
    """Number of pieces in stock."""
    response = httpx.get(f"{os.environ['SHOP_URL']}/stock/{item}")
    return response.raise_for_status().json()
