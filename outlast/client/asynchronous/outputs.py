"""`client.outputs` of `AsyncClient`."""

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from pydantic import JsonValue

from outlast.activities.outputs.contracts import StoredOutput
from outlast.client.asynchronous.concurrency import sleep, write_file
from outlast.client.asynchronous.transport import AsyncStream, AsyncTransport
from outlast.client.http import HttpRequest, path
from outlast.client.requests import output_lines, output_range
from outlast.contracts.outputs import RowSelection


class AsyncOutputs:
    """Stored outputs, by their locators."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def info(self, locator: str) -> StoredOutput:
        """Return the description of an output: kind, sizes, count, digest, expiry."""
        return await self._transport.fetch(StoredOutput, HttpRequest("GET", path("outputs", locator, "info")))

    async def read(self, locator: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes from `start` up to and without `end`; the whole output without them."""
        content = bytearray()
        async with self.stream(locator, start, end) as pieces:
            async for piece in pieces:
                content += piece
        return bytes(content)

    def stream(self, locator: str, start: int = 0, end: int | None = None) -> AsyncStream[bytes]:
        """Iterate over the bytes in pieces. Continues where it stopped after a cut connection."""
        return AsyncStream(self._stream(locator, start, end))

    async def save(self, locator: str, path: Path | str) -> int:
        """Write an output to a file and return its size in bytes. The file appears when it is complete."""
        async with self.stream(locator) as pieces:
            return await write_file(Path(path), pieces)

    def rows(
        self,
        locator: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        fields: Sequence[str] = (),
        where: str | None = None,
        query: str | None = None,
    ) -> AsyncStream[JsonValue]:
        """Iterate over rows: `limit` from `offset` on, of each only `fields` (dot paths), only those for which `where`
        (JMESPath) is true, or what `query` (JMESPath) makes of each.
        """
        return AsyncStream(self._rows(locator, RowSelection(offset, limit, tuple(fields), where, query)))

    def lines(self, locator: str, wanted: RowSelection) -> AsyncStream[bytes]:
        """Iterate over rows as lines of JSON, each with its line end.

        Continues after a cut connection, except when an expression selects rows and some came already: the position
        of the server is unknown then, and it raises `ConnectionFailed`.
        """
        return self._transport.lines(output_lines(locator, wanted), can_resume=not wanted.evaluates)

    async def delete(self, locator: str) -> None:
        """Remove an output before its expiry."""
        await self._transport.send(HttpRequest("DELETE", path("outputs", locator)))

    async def _rows(self, locator: str, wanted: RowSelection) -> AsyncGenerator[JsonValue]:
        async with self.lines(locator, wanted) as lines:
            async for line in lines:
                yield json.loads(line)

    async def _stream(self, locator: str, start: int, end: int | None) -> AsyncGenerator[bytes]:
        attempts = self._transport.attempts()
        while end is None or start < end:
            with attempts:
                async with self._transport.open(output_range(locator, start, end), attempts) as (_, pieces):
                    async for piece in pieces:
                        start += len(piece)
                        yield piece
                return
            await sleep(attempts.pause_seconds())
