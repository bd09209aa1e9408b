"""A web site served by the standard library, for the crawler to crawl."""

from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event


@dataclass(frozen=True)
class Answer:
    """What the site answers at a path. With `hold` the answer waits until it is set."""

    body: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hold: Event | None = None


class LocalSite(ThreadingHTTPServer):
    """Answers GET requests from `answers`, one after the other where a path has several, and keeps record of them."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, list[Answer]] = {}
        self.requests: list[tuple[str, str]] = []

    def add(self, path: str, *answers: Answer | str) -> str:
        """Put a page (or a row of answers, the last of which stays) at a path; returns its URL."""
        self.answers[path] = [Answer(answer) if isinstance(answer, str) else answer for answer in answers]
        return self.url(path)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def requested_paths(self) -> list[str]:
        return [path for path, _ in self.requests if path != "/robots.txt"]

    def answer_to(self, path: str) -> Answer:
        answers = self.answers.get(path, [Answer("not here", 404)])
        return answers.pop(0) if len(answers) > 1 else answers[0]


class _Handler(BaseHTTPRequestHandler):
    server: LocalSite  # pyright: ignore[reportIncompatibleVariableOverride]

    def handle(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # The crawler is gone, maybe before it asked anything.
            super().handle()

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("User-Agent", "")))
        answer = self.server.answer_to(self.path)
        if answer.hold:
            answer.hold.wait()
        body = answer.body.encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep the test's output quiet."""
