"""Tools as a user writes them: typed functions under `@tool`. Counters are files in a folder that the test names."""

import time
from pathlib import Path

import httpx
from pydantic import BaseModel

from outlast import ToolContext, tool


class Forecast(BaseModel):
    city: str
    degrees: list[int]


class Busy(Exception):
    """An error that a retry may solve."""


class Broken(ConnectionError):
    """A failed connection that no retry solves."""


def _attempt(folder: str) -> int:
    marks = Path(folder)
    marks.joinpath(f"attempt-{time.monotonic_ns()}").touch()
    return len(list(marks.glob("attempt-*")))


@tool(read_only=True, tags=["outdoors"])
def weather(city: str, days: int = 1) -> Forecast:
    """Weather forecast for a city.

    Args:
        city: Name of the city.
        days: Number of days.
    """
    return Forecast(city=city, degrees=[20] * days)


@tool
def nap(seconds: float, call: ToolContext) -> str:
    """Block a thread."""
    call.progress(0, total=seconds, message="Sleeping")
    time.sleep(seconds)
    return "Rested."


@tool
async def blocks(seconds: float) -> str:
    """Block the event loop of functions."""
    time.sleep(seconds)  # noqa: ASYNC251 (the mistake that is looked for)
    return "Blocked."


@tool
async def quick() -> str:
    """Need the event loop of functions."""
    return "Here."


@tool(retries=4, backoff=0.1, retry_on=(Busy,), no_retry_on=(Broken,))
def flaky(folder: str, error: str) -> int:
    """Fail twice, and then return the number of attempts."""
    count = _attempt(folder)
    if count <= 2:
        raise {"busy": Busy, "broken": Broken, "value": ValueError}[error](f"attempt {count}")
    return count


@tool(backoff=0.1)
def fetched(folder: str, url: str) -> int:
    """Get a page, and return the number of attempts."""
    count = _attempt(folder)
    httpx.get(url).raise_for_status()
    return count


@tool(approval=lambda args: args.amount > 100)
def transfer(amount: int) -> str:
    """Transfer an amount. Larger amounts need an approval."""
    return f"Transferred {amount}."


@tool(read_only=True, reuse="10m", budget_usd=0.5, tags=["outdoors", "money"])
def rates(currency: str) -> float:
    """Time at which the rate of a currency was read."""
    return time.time()
