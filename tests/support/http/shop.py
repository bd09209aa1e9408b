"""A shop over HTTP, which the tools of docs/compared.md call."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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
