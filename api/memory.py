"""Gives freed memory back to the system: glibc keeps what many responses at once have used, for hours."""

import asyncio
import ctypes
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

_EVERY_SECONDS = 10.0


@asynccontextmanager
async def freed_memory_given_back() -> AsyncGenerator[None]:
    """Give it back from time to time while the block runs. Does nothing without glibc."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        yield
        return
    trimming = asyncio.create_task(_trim(trim))
    try:
        yield
    finally:
        trimming.cancel()
        with suppress(asyncio.CancelledError):
            await trimming


async def _trim(trim: Callable[[int], int]) -> None:
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        trim(0)  # takes a few milliseconds at most
