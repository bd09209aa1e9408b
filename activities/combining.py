"""Values that are sent together: those that arrive while a request is in progress go with the next one."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


@dataclass
class _Batch(Generic[T]):
    values: list[T] = field(default_factory=list[T])
    sending: "asyncio.Future[None] | None" = None


class Combiner(Generic[T]):
    """Sends the values of each key with one request at a time, `most` values at most in each.

    Temporal accepts few signals at a time for one workflow, and refuses others ("Workflow is busy").
    """

    def __init__(self, send: Callable[[str, tuple[T, ...]], Awaitable[None]], *, most: int = 200) -> None:
        self._send = send
        self._most = most
        self._batches: dict[str, _Batch[T]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def add(self, key: str, value: T) -> None:
        """Return when the value was sent. Raises what its request raised."""
        batch = self._batches.get(key)
        if batch is None or len(batch.values) >= self._most:
            batch = self._batches[key] = _Batch()
        batch.values.append(value)
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            if batch.sending is None:
                if self._batches.get(key) is batch:
                    del self._batches[key]
                batch.sending = asyncio.ensure_future(self._send(key, tuple(batch.values)))
            await asyncio.shield(batch.sending)
