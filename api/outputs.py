"""Stored outputs for the entry points: opened for their owner, read in parts, deleted."""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TypeVar

from outlast.activities.contracts import Caller
from outlast.activities.failures.exceptions import OutputError, StoreUnavailable
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import OutputKind, OutputScope, StoredOutput
from outlast.activities.outputs.output_format import OutputManifest, stored_output
from outlast.activities.outputs.reader import OutputReader, delete_output, open_output
from outlast.activities.outputs.selection import matches_stream, rows_stream
from outlast.activities.outputs.writer import OutputWriter
from outlast.api.access.limits.caller_limits import UnreadBytes
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import OutputRefusal, OutputStoreUnavailable
from outlast.contracts.outputs import OutputSelection

Piece = TypeVar("Piece")


class OutputTooLarge(Exception):
    """The output is larger than its reader can take."""


class StoredOutputs:
    """The outputs of one store. Every method raises `OutputRefusal`, or `OutputStoreUnavailable`.

    Whole outputs are streamed by the API process: a gigabyte must not pass through a workflow.
    """

    def __init__(self, objects: OutputObjects, audit: AuditLog, unread: UnreadBytes) -> None:
        self._objects = objects
        self._unread = unread
        self._audit = audit

    async def open(self, caller: Caller, locator: str) -> OutputReader:
        """Return a reader of the caller's output."""
        async with self._audit.action(AuditEvent.OUTPUT_READ, caller, output=locator):
            return await self._opened(caller, locator)

    async def describe(self, caller: Caller, locator: str) -> StoredOutput:
        """Return the facts about an output of the caller."""
        return stored_output((await self._opened(caller, locator)).manifest)

    async def delete(self, caller: Caller, locator: str) -> None:
        """Remove the caller's output. Doing so again is refused as `deleted`."""
        async with self._audit.action(AuditEvent.OUTPUT_DELETED, caller, output=locator):
            with refusals():
                await delete_output(self._objects, locator, caller.id)

    async def _opened(self, caller: Caller, locator: str) -> OutputReader:
        with refusals():
            return await open_output(self._objects, locator, caller.id, room=self._unread.room_of(caller.id))

    async def store(
        self, scope: OutputScope, content: bytes, *, what: str, kind: OutputKind, content_type: str, ttl: timedelta
    ) -> str:
        """Store a whole output for its owner; its locator. Again the same gives the same one."""
        with refusals():
            async with OutputWriter(self._objects, scope, what=what, kind=kind) as writer:
                await writer.write(content)
                return (await writer.finish(content_type=content_type, ttl=ttl)).locator

    def selected(self, reader: OutputReader, selection: OutputSelection) -> AsyncGenerator[bytes]:
        """Return the selected rows, as lines of JSON, in pieces."""
        offset, limit, names = selection.offset, selection.limit, selection.names
        if not selection.evaluates:
            return self.guarded(rows_stream(reader, offset=offset, limit=limit, fields=names))
        where, query = selection.where, selection.query
        return self.guarded(matches_stream(reader, offset=offset, limit=limit, fields=names, where=where, query=query))

    def content(self, reader: OutputReader, start: int, end: int) -> AsyncGenerator[bytes]:
        """Return bytes `start` to `end` (exclusive) of the content, in pieces."""
        return self.guarded(reader.bytes(start, end))

    async def guarded(self, pieces: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
        """Yield `pieces` of an output."""
        with refusals():
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
                    del piece

    @asynccontextmanager
    async def whole(
        self, caller: Caller, locator: str, *, most_bytes: int, copies: int
    ) -> AsyncGenerator[tuple[OutputManifest, bytes]]:
        """Yield a whole output, with room for `copies` of it. Raises `OutputTooLarge` above `most_bytes`."""
        reader = await self.open(caller, locator)
        if reader.manifest.raw_size > most_bytes:
            raise OutputTooLarge
        with refusals():
            async with reader.whole(copies=copies) as content:
                yield reader.manifest, content


async def begun(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Return `pieces` with the first one read, so that an error precedes the response's status."""
    read = [await anext(pieces, None)]

    async def from_the_first() -> AsyncGenerator[bytes]:
        async with aclosing(pieces):
            if read[0] is not None:
                yield read.pop()  # pyright: ignore[reportReturnType]  # and nothing holds it while the client reads
                async for piece in pieces:
                    yield piece
                    del piece

    return from_the_first()


@contextmanager
def refusals() -> Generator[None]:
    """Raise errors of an output or its store as errors of the API."""
    try:
        yield
    except OutputError as error:
        raise OutputRefusal(error.reason, error.envelope()) from error
    except StoreUnavailable as error:
        raise OutputStoreUnavailable("The store of outputs does not answer. Nothing is lost; retry shortly.") from error
