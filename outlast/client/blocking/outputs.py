"""`client.outputs`."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from outlast.client.blocking.transport import Stream, Transport
from outlast.client.contracts.outputs import RowSelection, StoredOutput
from outlast.client.flows import outputs
from outlast.client.flows.server import Server
from outlast.client.whole_files import whole_file


class Outputs:
    """Stored outputs, by their locators."""

    def __init__(self, server: Server, transport: Transport) -> None:
        self._server = server
        self._transport = transport

    def info(self, locator: str) -> StoredOutput:
        """Return what is known of an output: kind, sizes, count, digest, until when it is kept."""
        return self._transport.run(outputs.info(self._server, locator))

    def read(self, locator: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes from `start` up to and without `end`; the whole output without them."""
        with self.stream(locator, start, end) as pieces:
            return b"".join(pieces)

    def stream(self, locator: str, start: int = 0, end: int | None = None) -> Stream[bytes]:
        """Iterate over the bytes in pieces. Goes on where it stopped after a cut connection."""
        return self._transport.stream(outputs.content(self._server, locator, start, end))

    def save(self, locator: str, path: Path | str) -> int:
        """Write an output to a file and return its size in bytes. The file appears when it is complete."""
        written = 0
        with self.stream(locator) as pieces, whole_file(Path(path)) as file:
            for piece in pieces:
                written += file.write(piece)
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
    ) -> Stream[JsonValue]:
        """Iterate over rows: `limit` from `offset` on, of each only `fields` (dot paths), only those for which `where`
        (JMESPath) is true, or what `query` (JMESPath) makes of each.
        """
        wanted = RowSelection(offset, limit, tuple(fields), where, query)
        return self._transport.stream(outputs.rows(self._server, locator, wanted))

    def lines(self, locator: str, wanted: RowSelection) -> Stream[bytes]:
        """Iterate over rows as lines of JSON, each with its line end."""
        return self._transport.stream(outputs.lines(self._server, locator, wanted))

    def delete(self, locator: str) -> None:
        """Remove an output before its time."""
        self._transport.run(outputs.delete(self._server, locator))
