"""Waiting for a condition, never for a while."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(
    predicate: Callable[[], Awaitable[T | None] | T | None],
    timeout_seconds: float = 180.0,
    interval_seconds: float = 0.02,
) -> T:
    """Return the predicate's first true answer; it may be async.

    An `AssertionError` that it raises means "not yet". Fails with the last answer or assertion when the time is up.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        last, answer = await _ask(predicate)
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not true after {timeout_seconds:g} s; last: {last}")
        await asyncio.sleep(interval_seconds)


async def _ask(predicate: Callable[[], Awaitable[T | None] | T | None]) -> tuple[str, T | None]:
    try:
        answer = predicate()
        settled = await answer if inspect.isawaitable(answer) else answer
    except AssertionError as error:
        return str(error) or repr(error), None
    return repr(settled), settled  # type: ignore[return-value] (an awaitable was awaited)
