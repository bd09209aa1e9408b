"""The tools of a small shop, for the programs in docs/program-examples.md."""

from pydantic import BaseModel

from outlast import tool


class Order(BaseModel):
    """An order."""

    id: int
    customer: str
    usd: float
    days_late: int


class Customer(BaseModel):
    """A customer."""

    name: str
    country: str


_ORDERS = [Order(id=n, customer=["ann", "bob", "eve"][n % 3], usd=10.0 * n, days_late=n % 5) for n in range(1, 21)]
_CUSTOMERS = {"ann": "CZ", "bob": "DE", "eve": "CZ"}


@tool(read_only=True)
def list_orders(offset: int = 0, limit: int = 5) -> list[Order]:
    """List orders, by pages."""
    return _ORDERS[offset : offset + limit]


@tool(read_only=True)
def find_order(id: int) -> Order:  # noqa: A002 (the name that programs read best)
    """Find an order by its number."""
    return next(order for order in _ORDERS if order.id == id)


@tool(read_only=True)
def find_customer(name: str) -> Customer:
    """Find a customer."""
    return Customer(name=name, country=_CUSTOMERS[name])


@tool
def refund(id: int, usd: float) -> str:  # noqa: A002 (as above)
    """Refund a part of an order."""
    return f"Refunded {usd:g} US dollars of order {id}."


@tool(read_only=True)
def exchange_rate(source: str, currency: str) -> float:
    """Look up an exchange rate at one of several sources, of which some are down."""
    if source != "reserve":
        raise ValueError(f"The source {source} is down.")
    return {"EUR": 0.9, "CZK": 22.5}[currency]


@tool(read_only=True)
def parcel_state(id: int, looks: int) -> str:  # noqa: A002 (as above)
    """Look up where a parcel is. It arrives at the third look."""
    return "delivered" if looks >= 3 and id > 0 else "on its way"
