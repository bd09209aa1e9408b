"""Pauses and files with asyncio. The blocking client has its own module with the same names."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from outlast.client.whole_files import whole_file


async def sleep(seconds: float) -> None:
    """Wait."""
    await asyncio.sleep(seconds)


async def write_file(path: Path, pieces: AsyncIterator[bytes]) -> int:
    """Write `pieces` to a file, which appears when it is complete. Returns its size in bytes."""
    written = 0
    with whole_file(path) as file:
        async for piece in pieces:
            written += await asyncio.to_thread(file.write, piece)
    return written
