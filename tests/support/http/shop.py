"""The surroundings of the programs of docs/compared.md: a shop over HTTP, and a receiver of webhooks."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from standardwebhooks import Webhook

from outlast.deploy.local.orphans import die_with_parent
from tests.support.paths import ROOT
from tests.support.ports import free_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
"""Of the receiver."""


@dataclass
class Shop:
    """A running shop. `asked` counts the requests by path."""

    url: str = ""
    asked: Counter[str] = field(default_factory=Counter[str])
    failures: int = 0
    """How many of the next requests for `/stock/...` fail with status 503."""
    ships: threading.Event = field(default_factory=threading.Event)
    """Until it is set, requests for `/ship/...` wait."""

    def answer(self, path: str) -> int | str | None:
        """The JSON of a response; None for status 503."""
        self.asked[path] += 1
        _, action, name = path.split("/")
        if action == "ship":
            self.ships.wait()
        if action == "stock":
            self.failures -= 1
            return None if self.failures >= 0 else len(name)
        return f"{action} {name}"


@contextmanager
def running_shop() -> Iterator[Shop]:
    """A shop on a free port."""
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = shop.answer(self.path)
            body = json.dumps(answer).encode()
            self.send_response(503 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name of the base class)
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        shop.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield shop
        finally:
            shop.ships.set()
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Receiver:
    """A process that receives events and writes them to `file`."""

    url: str
    file: Path

    def verified(self) -> list[str]:
        """Types of the events received, whose signatures have been verified."""
        received = [json.loads(line) for line in self.file.read_text().splitlines()]
        return [Webhook(SECRET).verify(event["raw"], event["headers"])["type"] for event in received]


@contextmanager
def running_receiver(folder: Path) -> Iterator[Receiver]:
    """A receiver that verifies with `SECRET`."""
    port = free_port()
    receiver = Receiver(f"http://127.0.0.1:{port}/", folder / "received.jsonl")
    command = [sys.executable, "-m", "tests.support.http.webhook_receiver", str(port), str(receiver.file)]
    with subprocess.Popen(command, cwd=ROOT, preexec_fn=die_with_parent()) as process:
        try:
            yield receiver
        finally:
            process.kill()
