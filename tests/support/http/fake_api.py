"""A tiny HTTP server that answers as it is told: the API's side of the conversation, and nothing behind it."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Answer:
    """One response."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Stream:
    """Server-sent events; then the stream ends, the connection breaks, or nothing more comes."""

    events: tuple[str, ...]
    then: Literal["end", "drop", "hang"] = "end"


@dataclass(frozen=True)
class Drop:
    """The connection breaks before an answer."""


@dataclass(frozen=True)
class Seen:
    """One request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


Reply = Answer | Stream | Drop


class FakeApi:
    """Tell it what to answer with `on`; look at `seen`."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._replies: defaultdict[tuple[str, str], list[Reply]] = defaultdict(list)
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.url = ""

    def on(self, method: str, path: str, *replies: Reply | dict[str, Any]) -> None:
        """Answer requests with these, in turn; the last one stays."""
        self._replies[method, path] = [reply if not isinstance(reply, dict) else Answer(reply) for reply in replies]

    def requests(self, method: str, path: str) -> list[Seen]:
        return [seen for seen in self.seen if (seen.method, seen.path) == (method, path)]

    def take(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            replies = self._replies[seen.method, seen.path]
            if not replies:
                return problem(404, "Nothing here", f"The test did not expect {seen.method} {seen.path}.")
            return replies.pop(0) if len(replies) > 1 else replies[0]


def problem(status: int, title: str, detail: str, **extra: Any) -> Answer:
    """An RFC 9457 document; `retry_after` becomes the header."""
    headers = {"Content-Type": "application/problem+json"}
    headers |= {"Retry-After": str(extra.pop("retry_after"))} if "retry_after" in extra else {}
    body = {"type": "urn:outlast:problem:test", "title": title, "status": status, "detail": detail, **extra}
    return Answer(body, status, headers)


def sse(name: str, data: Mapping[str, Any], *, id: str | None = None, time: str = "2026-01-01T00:00:00Z") -> str:  # noqa: A002
    """One frame as the API writes it."""
    identity = f"id: {id}\n" if id else ""
    return f"{identity}event: {name}\ndata: {json.dumps({'time': time, 'data': data})}\n\n"


@contextmanager
def running_fake_api() -> Iterator[FakeApi]:
    """Serve on a free port until the end of the block."""
    api = FakeApi()

    class Handler(_Handler):
        fake = api

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        api.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield api
        finally:
            api.closing.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeApi
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.fake.take(Seen(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body))
        if isinstance(reply, Answer):
            self._answer(reply)
        elif isinstance(reply, Stream):
            self._stream(reply)
        else:
            self.close_connection = True

    do_POST = do_GET  # noqa: N815 (the base class's name)

    def _answer(self, answer: Answer) -> None:
        text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
        self.send_response_only(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _stream(self, stream: Stream) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for frame in ("retry: 2000\n\n", *stream.events):
            data = frame.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        if stream.then == "end":
            self.wfile.write(b"0\r\n\r\n")
            return
        if stream.then == "hang":
            self.fake.closing.wait(60)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        pass
