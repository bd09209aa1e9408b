"""A server that answers with whatever bytes a test gives it, on a real socket."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class HostileReceiver:
    """Answers each request with `begin`, and then with `rest` again and again until the other side leaves."""

    begin: bytes = b""
    rest: bytes = b""
    pause_seconds: float = 0
    """Between two times of `rest`."""
    resets: bool = False
    """Whether it then resets the connection instead of closing it."""
    url: str = ""
    sent: int = 0
    """Bytes, all answers together."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the other side has left a connection."""
    connections: "set[asyncio.Task[Any] | None]" = field(default_factory=set["asyncio.Task[Any] | None"])

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(asyncio.current_task())
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                await self._send(writer, self.begin)
                while self.rest:
                    await self._send(writer, self.rest)
                    await asyncio.sleep(self.pause_seconds)
            self.left.set()
            if self.resets:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.connections.discard(asyncio.current_task())

    async def close(self) -> None:
        """End what is left."""
        left = [one for one in self.connections if one is not None]
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        self.sent += len(data)


@asynccontextmanager
async def answering(
    begin: bytes = b"", rest: bytes = b"", *, pause_seconds: float = 0, resets: bool = False
) -> AsyncGenerator[HostileReceiver]:
    """Answer on a free port until the end of the block."""
    receiver = HostileReceiver(begin, rest, pause_seconds, resets)
    server = await asyncio.start_server(receiver.answer, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks"
    try:
        yield receiver
    finally:
        server.close()
        await receiver.close()
