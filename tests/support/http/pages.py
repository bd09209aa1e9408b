"""A web server on loopback: pages, redirects, harmful answers, and a documentation of one page."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """One answer."""

    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0


@dataclass
class WebServer:
    """A running server: what it serves by path, and the paths that were asked for."""

    url: str
    answers: dict[str, Served]
    asked: list[str]
    open: threading.Event = field(default_factory=threading.Event)

    def hold(self) -> None:
        """Let requests come, and answer none of them before `release`."""
        self.open.clear()

    def release(self) -> None:
        """Answer what was held, and everything that comes."""
        self.open.set()

    def page(self, path: str, body: str, content_type: str = "text/html; charset=utf-8") -> str:
        """Serve a page; its address."""
        self.answers[path] = Served(body.encode(), content_type)
        return self.url + path

    def redirect(self, path: str, location: str, status: int = 302) -> str:
        """Serve a redirect; its address."""
        self.answers[path] = Served(status=status, headers={"Location": location})
        return self.url + path

    def gzipped(self, path: str, body: bytes) -> str:
        """Serve a compressed page; its address."""
        self.answers[path] = Served(gzip.compress(body), headers={"Content-Encoding": "gzip"})
        return self.url + path


@contextmanager
def serving_pages(host: str = "127.0.0.1") -> Iterator[WebServer]:
    """Serve on a free port until the end of the block."""
    answers: dict[str, Served] = {}
    asked: list[str] = []
    served = WebServer("", answers, asked)
    served.release()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            answer = answers.get(self.path, Served(b"<h1>Nothing here</h1>", status=404))
            time.sleep(answer.delay_seconds)
            served.open.wait()
            with suppress(OSError):  # the client has seen enough
                self.send_response(answer.status)
                for name, value in {"Content-Type": answer.content_type, **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        served.url = f"http://{host}:{server.server_address[1]}"
        yield served
    finally:
        served.release()
        server.shutdown()
        server.server_close()


PAGE, INDEX = "/guide/actors", "/guide/llms.txt"


@contextmanager
def serving_docs() -> Iterator[WebServer]:
    """The page as HTML and as Markdown, the index, and what the search of Apify's server would find."""
    with serving_pages() as server:
        server.page(PAGE, "<html><body><main><h1>Actors</h1><p>Actors run.</p></main></body></html>")
        server.page(f"{PAGE}.md", "# Actors\n\nActors run.\n", "text/markdown")
        server.page(INDEX, "# Docs\n\n- [Actors](actors): what runs\n", "text/plain")
        hit = {
            "url_without_anchor": f"{server.url}{PAGE}",
            "_snippetResult": {"content": {"value": "Actors run."}},
        }
        server.page("/search", json.dumps({"results": [{"hits": [hit]}]}), "application/json")
        yield server


def docs_settings(server: WebServer) -> dict[str, str]:
    """The settings of a worker whose documentation this is."""
    return {"OUTLAST_DOCS_SITE_URL": f"{server.url}/guide/", "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true"}
