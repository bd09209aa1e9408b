"""Outputs written and read in tests."""

import itertools
from collections.abc import Iterable, Sequence
from datetime import timedelta

from obstore.store import MemoryStore

from outlast.activities.contracts import Caller
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import OutputKind, OutputScope
from outlast.activities.outputs.output_format import OutputManifest, Sizes
from outlast.activities.outputs.reader import OutputReader
from outlast.activities.outputs.writer import OutputWriter

CALLER = Caller(id="caller-1")
SCOPE = OutputScope(
    caller_id=CALLER.id, session_id="session-1", message_id="message-1", tool_call_id="call-1", task_id="task-1"
)
TTL = timedelta(hours=24)
SMALL = Sizes(frame=64, part=256)
"""Frames and parts so small that a few rows make many of them."""


def objects_in_memory() -> OutputObjects:
    return OutputObjects(MemoryStore())


async def stored(
    objects: OutputObjects,
    content: bytes,
    *,
    kind: OutputKind = "rows",
    content_type: str = "application/x-ndjson",
    scope: OutputScope = SCOPE,
    sizes: Sizes = SMALL,
) -> OutputManifest:
    """Content, written in one go."""
    async with OutputWriter(objects, scope, what="content", kind=kind, sizes=sizes) as writer:
        await writer.write(content)
        return await writer.finish(content_type=content_type, ttl=TTL)


async def stored_in_pages(
    objects: OutputObjects, rows: Sequence[bytes], page_sizes: Iterable[int], crashes: Iterable[int]
) -> OutputManifest:
    """Rows as an activity writes them: page by page, and after each of `crashes` pages by a new writer that resumes."""
    sizes = itertools.cycle(page_sizes)
    for pages in [*crashes, None]:
        async with OutputWriter(objects, SCOPE, what="content", kind="rows", sizes=SMALL) as writer:
            at = (await writer.resume()).rows
            for number in itertools.count():
                if number == pages:
                    break
                if at >= len(rows):
                    return await writer.finish(content_type="application/x-ndjson", ttl=TTL)
                page = rows[at : at + next(sizes)]
                await writer.write(b"".join(row + b"\n" for row in page))
                at += len(page)
    raise AssertionError("The last writer writes to the end.")


async def rows_of(reader: OutputReader, offset: int = 0, limit: int | None = None) -> list[bytes]:
    return [row async for row in reader.rows(offset, limit)]


async def bytes_of(reader: OutputReader, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([piece async for piece in reader.bytes(start, end)])


async def keys_of(objects: OutputObjects, prefix: str = "") -> list[str]:
    return sorted([found.key async for found in objects.list(prefix)])
