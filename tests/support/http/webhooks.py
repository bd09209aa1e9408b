"""A receiver of webhooks on a real socket, which answers what a test wants and keeps what it got."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET_PATH = "/services/T0/B0/theSecretOfTheWebhook"


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes = b""


@dataclass
class WebhookReceiver:
    """Answers with the statuses in `answers`, one each, and then with `otherwise`.

    0 breaks the connection instead, and -1 keeps the other side waiting until the receiver is closed.
    """

    url: str
    received: list[Received] = field(default_factory=list[Received])
    answers: list[int] = field(default_factory=list[int])
    otherwise: int = 200
    retry_after: str | None = None
    """The header `Retry-After` of its answers."""
    on_arrival: Callable[[Received], None] = lambda _: None
    """Called before a request is answered."""
    closed: threading.Event = field(default_factory=threading.Event)

    def texts(self) -> list[str]:
        return [request.body["text"] for request in self.received]


@contextmanager
def receiving_webhooks() -> Iterator[WebhookReceiver]:
    """Receive on a free port until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            body = json.loads(raw)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Received(self.path, headers, body, raw)
            receiver.on_arrival(request)
            receiver.received.append(request)
            status = receiver.answers.pop(0) if receiver.answers else receiver.otherwise
            if status < 0:
                receiver.closed.wait()
            if status <= 0:
                self.connection.close()
                return
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", "/elsewhere")
            if receiver.retry_after is not None:
                self.send_header("Retry-After", receiver.retry_after)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

        def handle(self) -> None:
            with suppress(OSError, ValueError):  # the connection that a test had broken
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = WebhookReceiver(f"http://127.0.0.1:{server.server_port}{SECRET_PATH}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.closed.set()
        server.shutdown()
        server.server_close()
