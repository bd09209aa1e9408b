"""`client.outputs` of `AsyncClient`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from outlast.client.asynchronous.transport import AsyncStream, AsyncTransport
from outlast.client.contracts.outputs import RowSelection, StoredOutput
from outlast.client.flows import outputs
from outlast.client.flows.server import Server
from outlast.client.whole_files import whole_file


class AsyncOutputs:
    """Stored outputs, by their locators."""

    def __init__(self, server: Server, transport: AsyncTransport) -> None:
        self._server = server
        self._transport = transport

    async def info(self, locator: str) -> StoredOutput:
        """Return what is known of an output: kind, sizes, count, digest, until when it is kept."""
        return await self._transport.run(outputs.info(self._server, locator))

    async def read(self, locator: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes from `start` up to and without `end`; the whole output without them."""
        async with self.stream(locator, start, end) as pieces:
            return b"".join([piece async for piece in pieces])

    def stream(self, locator: str, start: int = 0, end: int | None = None) -> AsyncStream[bytes]:
        """Iterate over the bytes in pieces. Goes on where it stopped after a cut connection."""
        return self._transport.stream(outputs.content(self._server, locator, start, end))

    async def save(self, locator: str, path: Path | str) -> int:
        """Write an output to a file and return its size in bytes. The file appears when it is complete."""
        written = 0
        async with self.stream(locator) as pieces:
            with whole_file(Path(path)) as file:
                async for piece in pieces:
                    written += await asyncio.to_thread(file.write, piece)
        return written

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
        wanted = RowSelection(offset, limit, tuple(fields), where, query)
        return self._transport.stream(outputs.rows(self._server, locator, wanted))

    def lines(self, locator: str, wanted: RowSelection) -> AsyncStream[bytes]:
        """Iterate over rows as lines of JSON, each with its line end."""
        return self._transport.stream(outputs.lines(self._server, locator, wanted))

    async def delete(self, locator: str) -> None:
        """Remove an output before its time."""
        await self._transport.run(outputs.delete(self._server, locator))
