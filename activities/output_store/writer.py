"""Writing an output as it streams in. An interrupted writing goes on after the last part that was stored."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from activities.output_store.frames import Frame, FrameBuilder, OutputDamaged
from activities.output_store.locators import OutputOrigin, locator_for, parse_locator, scope_of
from activities.output_store.manifest import Kind, OutputManifest, StoredPart, content_digest
from activities.output_store.parts import FOOTER_BYTES, FRAMES_PER_PART, Part, build_part, index_length, parse_index
from activities.output_store.store import OutputObjects, manifest_key, part_key, parts_prefix


Summariser = Callable[[OutputManifest], Awaitable[dict[str, JsonValue]]]


@dataclass(frozen=True)
class Position:
    """How much of an output is stored: where the source has to go on."""

    rows: int
    raw_size: int


class OutputWriter:
    """Takes content, stores parts, and at the end the manifest. Compression runs in threads."""

    def __init__(self, objects: OutputObjects, origin: OutputOrigin, *, upload: str, kind: Kind, level: int = 3) -> None:
        """`upload` names this writing: the same name finds again what an earlier attempt has stored."""
        self._objects = objects
        self._origin = origin
        self._upload = upload
        self._kind: Kind = kind
        self._builder = FrameBuilder(aligned=kind == "rows", level=level)
        self._frames: list[Frame] = []
        self._parts: list[StoredPart] = []

    @property
    def position(self) -> Position:
        """What is stored so far."""
        return Position(sum(part.rows for part in self._parts), sum(part.raw_size for part in self._parts))

    async def resume(self) -> Position:
        """Find the parts of an earlier attempt. One that is not whole is written again."""
        scope = scope_of(self._origin.caller_id)
        known = {stored.key: stored.size async for stored in self._objects.list(parts_prefix(scope, self._upload))}
        while (key := part_key(scope, self._upload, len(self._parts))) in known:
            part = await self._stored_part(key, known[key])
            if part is None:
                break
            self._parts.append(part)
        return self.position

    async def write(self, content: bytes) -> None:
        """Take content: whole rows, each ended by a newline, or a piece of any length for other kinds."""
        self._frames += await asyncio.to_thread(lambda: list(self._builder.add(content)))
        while len(self._frames) >= FRAMES_PER_PART:
            frames, self._frames = self._frames[:FRAMES_PER_PART], self._frames[FRAMES_PER_PART:]
            await self._store(frames)

    async def finish(
        self,
        *,
        content_type: str,
        ttl: timedelta,
        summarise: Summariser | None = None,
        tool: str = "",
        task_id: str | None = None,
    ) -> OutputManifest:
        """Store what is left and make the output visible. The same content of the same call is stored once."""
        self._frames += await asyncio.to_thread(lambda: list(self._builder.finish()))
        if self._frames:
            frames, self._frames = self._frames, []
            await self._store(frames)
        manifest = self._manifest(content_type, ttl, tool, task_id)
        if summarise is not None:
            manifest = manifest.model_copy(update={"summary": await summarise(manifest)})
        locator = parse_locator(manifest.locator, caller_id=self._origin.caller_id)
        await self._objects.put(manifest_key(locator), manifest.model_dump_json().encode())
        return manifest

    async def _store(self, frames: list[Frame]) -> None:
        part = await asyncio.to_thread(build_part, frames)
        key = part_key(scope_of(self._origin.caller_id), self._upload, len(self._parts))
        await self._objects.put(key, part.data)
        self._parts.append(_described(key, len(part.data), part))

    async def _stored_part(self, key: str, size: int) -> StoredPart | None:
        try:
            footer = await self._objects.get_range(key, size - FOOTER_BYTES, size)
            length = index_length(footer)
            text = await self._objects.get_range(key, size - FOOTER_BYTES - length, size - FOOTER_BYTES)
            index = parse_index(text)
        except OutputDamaged:
            return None
        if len(index.frames) != FRAMES_PER_PART:
            return None  # The last part of a writing that was interrupted before its manifest: its end may not be ours.
        return StoredPart(key=key, size=size, raw_size=index.raw_size, rows=index.rows, digest=index.digest)

    def _manifest(
        self, content_type: str, ttl: timedelta, tool: str, task_id: str | None
    ) -> OutputManifest:
        parts = tuple(self._parts)
        digest = content_digest(parts)
        now = datetime.now(UTC)
        return OutputManifest(
            locator=str(locator_for(self._origin, digest)),
            caller_id=self._origin.caller_id,
            session_id=self._origin.session_id,
            message_id=self._origin.message_id,
            tool_call_id=self._origin.tool_call_id,
            task_id=task_id,
            tool=tool,
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


def _described(key: str, size: int, part: Part) -> StoredPart:
    index = part.index
    return StoredPart(key=key, size=size, raw_size=index.raw_size, rows=index.rows, digest=index.digest)
