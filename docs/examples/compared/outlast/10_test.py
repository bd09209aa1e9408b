from outlast import SyncToolContext, tool
from outlast.testing import ToolTest


def charge(card: str) -> str:
    return f"receipt for {card}"


@tool
def order(card: str, ctx: SyncToolContext) -> str:
    """Order a ticket."""
    return f"Ordered: {ctx.step(charge, card)}"


async def test_a_crash_after_the_charge_does_not_charge_again() -> None:
    test = ToolTest(steps={"charge": "receipt-1"}, crash_after=["charge"])
    answer = await test.call(order, card="visa")
    assert (answer.text, test.ran) == ("Ordered: receipt-1", ["charge"])
