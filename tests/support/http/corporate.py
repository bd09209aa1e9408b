"""A corporate network: a proxy as the only way out, and an authority of certificates that only the company knows.

Every target of the proxy is one server of the test; on port 443, it has a certificate of that authority.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.stacks.tls_front import pump, write_certificates


@dataclass
class CorporateNetwork:
    """The way out, and what was asked of it."""

    origin_port: int
    authority: Path
    proxy_port: int = 0
    tls_port: int = 0
    refuses: bool = False
    asked: list[str] = field(default_factory=list[str])
    """First lines of requests, such as `CONNECT 192.0.2.1:443`."""
    authorizations: list[str] = field(default_factory=list[str])

    @property
    def proxy(self) -> str:
        return f"http://127.0.0.1:{self.proxy_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What the processes of such a company have."""
        return {"HTTPS_PROXY": self.proxy, "HTTP_PROXY": self.proxy, "SSL_CERT_FILE": str(self.authority)}

    async def serve_proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, target, _ = first.split(" ")
        self.asked.append(f"{method} {target}")
        named = [line.partition(": ")[2] for line in lines if line.lower().startswith("proxy-authorization:")]
        self.authorizations += named
        if self.refuses:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        is_tunnel = method == "CONNECT"
        port = self.tls_port if is_tunnel and target.endswith(":443") else self.origin_port
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        if is_tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            parts = urlsplit(target)
            kept = [line for line in lines if not line.lower().startswith("proxy-")]
            there_writer.write("\r\n".join([f"{method} {parts.path} HTTP/1.1", *kept]).encode())
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))

    async def serve_tls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.origin_port)
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))


@contextmanager
def corporate_network(folder: Path, origin_port: int, *names: str) -> Iterator[CorporateNetwork]:
    """Serve in a thread of its own. The origin has the `names` on port 443."""
    authority, certificate, key = write_certificates(folder, *names)
    network = CorporateNetwork(origin_port, authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop, listening = asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        proxy = await asyncio.start_server(network.serve_proxy, "127.0.0.1", 0)
        front = await asyncio.start_server(network.serve_tls, "127.0.0.1", 0, ssl=context)
        network.proxy_port, network.tls_port = (one.sockets[0].getsockname()[1] for one in (proxy, front))
        listening.set()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(proxy.serve_forever(), front.serve_forever())

    def run() -> None:
        with suppress(RuntimeError, asyncio.CancelledError):
            loop.run_until_complete(serve())

    thread = threading.Thread(target=run)
    thread.start()
    listening.wait(30)
    try:
        yield network
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join()
        loop.close()
