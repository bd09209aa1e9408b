# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""`client.outputs` of `Client`."""

import json
from collections.abc import Generator, Sequence
from pathlib import Path

from pydantic import JsonValue

from outlast.activities.outputs.contracts import StoredOutput
from outlast.client.blocking.concurrency import sleep, write_file
from outlast.client.blocking.transport import Stream, Transport
from outlast.client.http import HttpRequest, path
from outlast.client.requests import output_lines, output_range
from outlast.contracts.outputs import RowSelection


class Outputs:
    """Stored outputs, by their locators."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def info(self, locator: str) -> StoredOutput:
        """Return the description of an output: kind, sizes, count, digest, expiry."""
        return self._transport.fetch(StoredOutput, HttpRequest("GET", path("outputs", locator, "info")))

    def read(self, locator: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes from `start` up to and without `end`; the whole output without them."""
        content = bytearray()
        with self.stream(locator, start, end) as pieces:
            for piece in pieces:
                content += piece
        return bytes(content)

    def stream(self, locator: str, start: int = 0, end: int | None = None) -> Stream[bytes]:
        """Iterate over the bytes in pieces. Continues where it stopped after a cut connection."""
        return Stream(self._stream(locator, start, end))

    def save(self, locator: str, path: Path | str) -> int:
        """Write an output to a file and return its size in bytes. The file appears when it is complete."""
        with self.stream(locator) as pieces:
            return write_file(Path(path), pieces)

    def rows(
        self,
        locator: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        fields: Sequence[str] = (),
        where: str | None = None,
        query: str | None = None,
    ) -> Stream[JsonValue]:
        """Iterate over rows: `limit` from `offset` on, of each only `fields` (dot paths), only those for which `where`
        (JMESPath) is true, or what `query` (JMESPath) makes of each.
        """
        return Stream(self._rows(locator, RowSelection(offset, limit, tuple(fields), where, query)))

    def lines(self, locator: str, wanted: RowSelection) -> Stream[bytes]:
        """Iterate over rows as lines of JSON, each with its line end.

        Continues after a cut connection, except when an expression selects rows and some came already: the position
        of the server is unknown then, and it raises `ConnectionFailed`.
        """
        return self._transport.lines(output_lines(locator, wanted), can_resume=not wanted.evaluates)

    def delete(self, locator: str) -> None:
        """Remove an output before its expiry."""
        self._transport.send(HttpRequest("DELETE", path("outputs", locator)))

    def _rows(self, locator: str, wanted: RowSelection) -> Generator[JsonValue]:
        with self.lines(locator, wanted) as lines:
            for line in lines:
                yield json.loads(line)

    def _stream(self, locator: str, start: int, end: int | None) -> Generator[bytes]:
        attempts = self._transport.attempts()
        while end is None or start < end:
            with attempts:
                with self._transport.open(output_range(locator, start, end), attempts) as (_, pieces):
                    for piece in pieces:
                        start += len(piece)
                        yield piece
                return
            sleep(attempts.pause_seconds())
