"""Tools that programs of tests call. Each notes in a folder that it ran."""

import time
from pathlib import Path

from pydantic import BaseModel

from outlast import tool


class Order(BaseModel):
    item: str
    usd: float


def note(folder: str, line: str) -> None:
    with Path(folder, "ran").open("a") as file:
        file.write(f"{line}\n")


@tool(read_only=True)
def price_of(item: str, folder: str) -> Order:
    """Look up a price."""
    note(folder, f"price {item}")
    return Order(item=item, usd=float(len(item)))


@tool
def refuse(folder: str) -> str:
    """Refuse."""
    note(folder, "refuse")
    raise ValueError("never")


@tool(retries=0)
def pay_for(item: str, folder: str) -> str:
    """Pay, and wait until the folder has the file `go`."""
    note(folder, f"pay {item}")
    while not Path(folder, "go").exists():
        time.sleep(0.05)
    return f"paid {item}"


@tool(approval=True)
def delete_all(folder: str) -> str:
    """Delete all."""
    note(folder, "delete")
    return "deleted"


@tool
def forbidden(hidden_parameter: str) -> str:
    """A tool that the operator denies."""
    return hidden_parameter
