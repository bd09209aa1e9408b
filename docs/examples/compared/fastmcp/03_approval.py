from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("shop")


@mcp.tool
async def refund(order: str, amount: float, ctx: Context) -> str:
    """Refund an order."""
    answer = await ctx.elicit("Refund this order?", bool)
    if answer.action != "accept" or not answer.data:
        raise ToolError("The refund was not approved.")
    return f"Refunded {amount:.2f} for {order}."
