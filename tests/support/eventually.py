"""Waiting for a condition, never for a while."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

# Tests run side by side: one that asked all the time would take the others' processor, and that of the servers it asks.
_SHARE_OF_ASKING = 1 / 6
"""Of the time that is waited, at most."""
_LONGEST_PAUSE_SECONDS = 0.5
_ADDED_WAIT = 1 / 8
"""What a pause may add to the wait so far: who has waited long asks more seldom."""
_LONGEST_ADDED_SECONDS = 0.25


async def eventually(
    predicate: Callable[[], Awaitable[T | None] | T | None],
    timeout_seconds: float = 180.0,
    interval_seconds: float = 0.02,
) -> T:
    """Return the predicate's first true answer; it may be async.

    An `AssertionError` that it raises means "not yet". Fails with the last answer or assertion when the time is up.
    The pause between two questions is `interval_seconds`, and longer when the predicate itself takes long, or when it
    has not held for long.
    """
    began = time.monotonic()
    deadline = began + timeout_seconds
    while True:
        asked = time.monotonic()
        last, answer = await _ask(predicate)
        if answer:
            return answer
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"not true after {timeout_seconds:g} s; last: {last}")
        await asyncio.sleep(max(interval_seconds, _pause_after(now - asked, waited=now - began)))


def _pause_after(question_seconds: float, *, waited: float) -> float:
    for_the_question = min(_LONGEST_PAUSE_SECONDS, question_seconds * (1 / _SHARE_OF_ASKING - 1))
    return max(for_the_question, min(_LONGEST_ADDED_SECONDS, waited * _ADDED_WAIT))


async def _ask(predicate: Callable[[], Awaitable[T | None] | T | None]) -> tuple[str, T | None]:
    try:
        answer = predicate()
        settled = await answer if inspect.isawaitable(answer) else answer
    except AssertionError as error:
        return str(error) or repr(error), None
    return repr(settled), settled  # type: ignore[return-value] (an awaitable was awaited)
