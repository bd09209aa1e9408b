import asyncio

from fastmcp import Context, FastMCP

mcp = FastMCP("shop")


@mcp.tool
async def pack(items: list[str], ctx: Context) -> int:
    """Pack items."""
    for done, item in enumerate(items):
        await ctx.report_progress(done, len(items), f"Packing {item}")
        await asyncio.sleep(1)
    return len(items)
