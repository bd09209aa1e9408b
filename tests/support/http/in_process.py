"""Applications on a real socket, served by the test's own event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from outlast.api.http.client_connections import KEEP_ALIVE_SECONDS


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the test run's own signal handlers alone."""
        yield


def listening() -> tuple[socket.socket, str]:
    """A socket on a free port of loopback, and its URL. Whoever connects waits until it is served."""
    # With its protocol named, asyncio switches off what holds small answers back for 40 ms.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


@asynccontextmanager
async def serving(app: Any, listener: socket.socket, **options: Any) -> AsyncIterator[None]:
    """Serve `app` on `listener` until the end of the block; `options` are those of uvicorn."""
    config = uvicorn.Config(
        app,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        **{"lifespan": "off", "timeout_keep_alive": KEEP_ALIVE_SECONDS, **options},
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await task
        listener.close()
