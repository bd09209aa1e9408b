"""Writes an output as it streams in. An interrupted write continues after the last part that was stored."""

import asyncio
import hashlib
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self, TypeVar

from outlast.activities.failures.exceptions import OutputDamaged
from outlast.activities.object_store import OutputObjects, StoredObject, part_key, parts_prefix
from outlast.activities.outputs import output_format
from outlast.activities.outputs.contracts import OutputKind, OutputScope
from outlast.activities.outputs.reader import OutputReader, load_manifest, manifest_key, tombstone_key
from outlast.activities.outputs.summaries import summarise

_PARTS_IN_FLIGHT = 2
"""Parts that are compressed or stored while the next one arrives. Each holds its content: this limits memory use."""
_ASKED_AT_ONCE = 32
_INLINE_BYTES = 1024 * 1024
"""Larger pieces are split in a thread."""


@dataclass(frozen=True)
class Position:
    """The stored part of an output: the offset at which the source continues."""

    rows: int
    raw_size: int


class OutputWriter:
    """Stores content in parts, and the manifest at the end. Compression and hashing run in threads. Use it in `async
    with`, so that nothing keeps running when the block fails.
    """

    def __init__(
        self,
        objects: OutputObjects,
        scope: OutputScope,
        *,
        what: str,
        kind: OutputKind,
        level: int = output_format.ZSTD_LEVEL,
        sizes: output_format.Sizes = output_format.DEFAULT_SIZES,
    ) -> None:
        """`what` names the content within its call: a retry with the same name finds the parts that are stored."""
        self._objects = objects
        self._scope = scope
        self._kind: OutputKind = kind
        self._level = level
        self._sizes = sizes
        self._upload = output_format.upload_name(scope, what)
        self._cutter = output_format.Cutter(aligned=kind == "rows", sizes=sizes)
        self._in_flight: deque[asyncio.Task[output_format.StoredPart]] = deque()
        self._parts: list[output_format.StoredPart] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish the parts in flight, so that a retry need not repeat them; after a cancellation, cancel them."""
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            for task in self._in_flight:
                task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
        self._in_flight.clear()

    @property
    def position(self) -> Position:
        """The position after the complete parts."""
        return Position(sum(part.rows for part in self._parts), sum(part.raw_size for part in self._parts))

    async def resume(self) -> Position:
        """Find the parts of an earlier attempt. Call it before `write`; the content continues at the result."""
        prefix = parts_prefix(output_format.scope_of(self._scope.caller_id), self._upload)
        by_number: dict[int, list[StoredObject]] = {}
        async for found in self._objects.list(prefix):
            by_number.setdefault(_number_in(found.key), []).append(found)
        while candidates := by_number.get(len(self._parts)):
            parts = [await self._full_part(candidate) for candidate in sorted(candidates, key=lambda one: one.key)]
            part = next((part for part in parts if part is not None), None)
            if part is None:
                break
            self._parts.append(part)
        return self.position

    async def write(self, content: bytes) -> None:
        """Add the next bytes, split anywhere; each row ends with a newline. Waits while the store is behind."""
        if len(content) <= _INLINE_BYTES:
            parts = list(self._cutter.add(content))
        else:
            parts = await asyncio.to_thread(lambda: list(self._cutter.add(content)))
        for frames in parts:
            await self._start_storing(frames)

    async def finish(self, *, content_type: str, ttl: timedelta) -> output_format.OutputManifest:
        """Store the rest and the manifest, which makes the output visible. The same content of the same call is stored
        once: when it exists already and has half of its time left, the existing manifest is returned.
        """
        for frames in await asyncio.to_thread(lambda: list(self._cutter.finish())):
            await self._start_storing(frames)
        while self._in_flight:
            await self._finish_oldest()
        manifest = await self._with_summary(self._build_manifest(content_type, ttl))
        existing = await self._find_existing(manifest, ttl)
        if existing is not None:
            await self._delete_duplicates(existing)
            return existing
        locator = output_format.locator_of(manifest)
        await self._objects.put(manifest_key(locator), output_format.manifest_text(manifest))
        await self._objects.delete([tombstone_key(locator)])
        return manifest

    async def _start_storing(self, frames: list[bytes]) -> None:
        while len(self._in_flight) >= _PARTS_IN_FLIGHT:
            await self._finish_oldest()
        number = len(self._parts) + len(self._in_flight)
        self._in_flight.append(asyncio.create_task(self._store(frames, number)))
        await asyncio.sleep(0)  # lets the task start, even if the caller never waits for more content

    async def _finish_oldest(self) -> None:
        part = await self._in_flight[0]
        self._in_flight.popleft()
        self._parts.append(part)

    async def _store(self, frames: list[bytes], number: int) -> output_format.StoredPart:
        part, digest = await in_background(lambda: self._build(frames))
        key = part_key(output_format.scope_of(self._scope.caller_id), self._upload, number, digest)
        await self._objects.put(key, part.data)
        index = part.index
        return output_format.StoredPart(
            key=key, size=len(part.data), raw_size=index.raw_size, rows=index.rows, digest=index.digest
        )

    def _build(self, frames: list[bytes]) -> tuple[output_format.Part, str]:
        part = output_format.build_part(output_format.compress(frames, aligned=self._kind == "rows", level=self._level))
        return part, hashlib.sha256(part.data).hexdigest()

    async def _full_part(self, stored: StoredObject) -> output_format.StoredPart | None:
        """Return the part in an object; None when it is damaged or the last of an attempt, which may lack content."""
        size = stored.size
        try:
            length = output_format.index_length(
                await self._objects.get_range(stored.key, size - output_format.FOOTER_BYTES, size)
            )
            text = await self._objects.get_range(
                stored.key, size - output_format.FOOTER_BYTES - length, size - output_format.FOOTER_BYTES
            )
            index = output_format.parse_index(text)
        except OutputDamaged:
            return None
        if index.raw_size < self._sizes.part:
            return None
        return output_format.StoredPart(
            key=stored.key, size=size, raw_size=index.raw_size, rows=index.rows, digest=index.digest
        )

    def _build_manifest(self, content_type: str, ttl: timedelta) -> output_format.OutputManifest:
        parts = tuple(self._parts)
        digest = output_format.content_digest(parts)
        now = datetime.now(UTC)
        return output_format.OutputManifest(
            locator=str(output_format.locator_for(self._scope, self._kind, digest)),
            **self._scope.model_dump(),
            kind=self._kind,
            content_type=content_type,
            digest=digest,
            raw_size=self.position.raw_size,
            stored_size=sum(part.size for part in parts),
            rows=self.position.rows,
            parts=parts,
            created_at=now,
            expires_at=now + ttl,
        )

    async def _with_summary(self, manifest: output_format.OutputManifest) -> output_format.OutputManifest:
        """Return the manifest with its summary. Content with a JSON type that is not JSON becomes text."""
        found = await summarise(OutputReader(self._objects, manifest))
        return manifest.model_copy(
            update={
                "locator": str(output_format.locator_for(self._scope, found.kind, manifest.digest)),
                "kind": found.kind,
                "count": found.count,
                "fields": found.fields,
                "summary": found.summary,
            }
        )

    async def _find_existing(
        self, manifest: output_format.OutputManifest, ttl: timedelta
    ) -> output_format.OutputManifest | None:
        """Return the manifest of the same output stored earlier, when it is complete and has half of its time left."""
        try:
            found = await load_manifest(self._objects, output_format.locator_of(manifest))
        except OutputDamaged:
            return None
        if found is None or found.expires_at < manifest.expires_at - ttl / 2:
            return None
        for start in range(0, len(found.parts), _ASKED_AT_ONCE):
            parts = found.parts[start : start + _ASKED_AT_ONCE]
            sizes = await asyncio.gather(*(self._objects.size(part.key) for part in parts))
            if sizes != [part.size for part in parts]:
                return None
        return found

    async def _delete_duplicates(self, existing: output_format.OutputManifest) -> None:
        kept = {part.key for part in existing.parts}
        await self._objects.delete([part.key for part in self._parts if part.key not in kept])


def _number_in(key: str) -> int:
    """Return the number of a part, from its key; -1 for any other key."""
    number = key.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdecimal() else -1


Result = TypeVar("Result")

log = logging.getLogger("outlast.outputs")

_ADDED_NICENESS = 10
"""As nice(1) adds by default: a tenth of the processor time of others, when there is not enough for all."""


async def in_background(work: Callable[[], Result]) -> Result:
    """Return the result of `work`, which should run without the interpreter's lock for most of its time."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def _give_way() -> None:
    # On Linux each thread has its own niceness; elsewhere it is that of the process, event loop included.
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    try:
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + _ADDED_NICENESS))
    except OSError as error:
        # A filter of system calls may forbid it. An error here would end the pool, and with it all storing.
        log.warning("Cannot lower the priority of the threads that store outputs: %s", error)


_threads = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="background", initializer=_give_way)
"""At most one thread per processor: more would not be faster, and each takes memory."""
