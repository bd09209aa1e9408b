"""A TCP port before another one, so that a test can cut the connections and refuse new ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Forwarder:
    """`url` leads to the target while the line is not cut; `silent` ones take connections and never answer."""

    def __init__(self, target: tuple[str, int] | None) -> None:
        self.accepted = asyncio.Event()
        self._target = target
        self._server: asyncio.Server | None = None
        self._port = 0
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where it listens; the same after `mend`."""
        return f"http://127.0.0.1:{self._port}"

    async def mend(self) -> None:
        """Take connections."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections and refuse new ones."""
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._connections.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.accepted.set()
        try:
            if self._target is None:
                await reader.read()
                return
            there_reader, there_writer = await asyncio.open_connection(*self._target)
            try:
                await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
            finally:
                there_writer.close()
        finally:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def forwarding(target: tuple[str, int] | None) -> AsyncIterator[Forwarder]:
    """Forward to `target` until the end of the block; without one, take connections and stay silent."""
    forwarder = Forwarder(target)
    await forwarder.mend()
    try:
        yield forwarder
    finally:
        await forwarder.cut()
