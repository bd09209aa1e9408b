from outlast import tool


@tool(approval="Refund this order?")
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return f"Refunded {amount:.2f} for {order}."
