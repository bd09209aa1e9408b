from fastmcp import Client, FastMCP

mcp = FastMCP("shop")


def charge(card: str) -> str:
    return f"receipt for {card}"


@mcp.tool
def order(card: str) -> str:
    """Order a ticket."""
    return f"Ordered: {charge(card)}"


async def test_order(monkeypatch) -> None:
    monkeypatch.setitem(globals(), "charge", lambda card: "receipt-1")
    async with Client(mcp) as client:
        answer = await client.call_tool("order", {"card": "visa"})
    assert answer.data == "Ordered: receipt-1"
