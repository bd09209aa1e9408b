"""Connections of a stranger that send requests without waiting for answers, as fast as they are taken."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx

_AT_ONCE = 50
"""Requests that a connection sends before it reads."""


@dataclass
class Flood:
    """What came of it so far."""

    answers: Counter[int] = field(default_factory=Counter[int])
    """Answers by status."""
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


@asynccontextmanager
async def flooding(url: str, requests: Sequence[bytes], *, connections: int) -> AsyncIterator[Flood]:
    """Send `requests`, each a whole one, over so many connections until the end of the block."""
    flood = Flood()
    target = httpx.URL(url)
    senders = [
        asyncio.create_task(_send(flood, target, requests[number % len(requests)] * _AT_ONCE))
        for number in range(connections)
    ]
    try:
        yield flood
    finally:
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def _send(flood: Flood, target: httpx.URL, sent: bytes) -> None:
    while True:
        reader, writer = await asyncio.open_connection(target.host, target.port)
        reading = asyncio.create_task(_count(flood, reader))
        try:
            with suppress(ConnectionError):
                while not reading.done():
                    writer.write(sent)
                    await writer.drain()
                    # As many are on their way as the server takes; the rest waits for the answers.
                    await asyncio.wait([reading], timeout=0.01)
        finally:
            reading.cancel()
            writer.close()


async def _count(flood: Flood, reader: asyncio.StreamReader) -> None:
    rest = b""
    with suppress(ConnectionError):
        while piece := await reader.read(256 * 1024):
            *found, rest = (rest + piece).split(b"HTTP/1.1 ")
            for head in [*found, rest][1:]:
                if head[:3].isdigit():
                    flood.answers[int(head[:3])] += 1
            rest = rest[-16:] if b"HTTP/1.1 " not in rest else rest


def request(line: str, *headers: str, body: str = "") -> bytes:
    """A whole request for loopback."""
    head = [f"{line} HTTP/1.1", "Host: 127.0.0.1", *headers]
    if body or line.startswith("POST"):
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", body]).encode()
