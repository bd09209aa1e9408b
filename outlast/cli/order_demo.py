"""The demo of a tool call whose worker is killed: the shop that it calls, and what happened to the call."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from pydantic import JsonValue
from rich.markup import escape

from outlast.cli.runner import Context
from outlast.cli.show.follow_task import headline, summary_line
from outlast.cli.show.output import Column, FittingTable, Output
from outlast.cli.show.progress import TaskProgress
from outlast.client import Task

if TYPE_CHECKING:
    from outlast.deploy.local.state import StackEvent

TOOLS = "outlast.demo_tools"
"""Module of the tool `order`."""
STEPS = ("reserve", "charge", "ship")
_WAIT_SECONDS = 300
_DONE = {"reserve": "the shop reserves the ticket", "charge": "the shop charges the card", "ship": "the shop ships"}
_ITEM = "a ticket"
_WAITS = "the worker is dead; Temporal starts another attempt when its heartbeat is overdue (10 s)"


class Order:
    """The call of the tool `order`, whose worker is killed when the shop has the first request to ship."""

    def __init__(self) -> None:
        self.is_running = False
        self._began = 0.0
        self._moments: list[tuple[float, str, str]] = []
        self._killed: int | None = None

    def see(self, event: "StackEvent") -> None:
        """Note that a worker has started after the kill."""
        if self._killed is not None and (event.component, event.kind.value) == ("worker", "ready"):
            self._note("worker", "another worker is ready")

    async def show(self, context: Context, worker: Callable[[], int | None]) -> Task | None:
        """Call the tool, kill `worker` after the charge, and show what happened.

        Returns the task, or None if it is not completed or was not charged once.
        """
        output, loop = context.output, asyncio.get_running_loop()
        self.is_running = True
        with TaskProgress(output) as progress:

            def received(request: Request) -> None:
                self._note(request.what, f"{_DONE[request.what]}, asked by worker {request.worker}", at=request.at)
                done = f"{STEPS.index(request.what)} of {len(STEPS)} steps are done; {_DONE[request.what]}"
                loop.call_soon_threadsafe(progress.show, "working", done)
                if request.what == "ship" and self._killed is None:
                    self._killed = worker() or request.worker
                    os.kill(self._killed, signal.SIGKILL)
                    self._note("kill -9", f"worker {self._killed}, before the shop has answered")
                    loop.call_soon_threadsafe(progress.show, "worker killed", f"2 of 3 steps are done; {_WAITS}")

            with Shop(received) as shop:
                self._began = time.monotonic()
                task = await context.client.start("order", {"item": _ITEM, "shop": shop.url})
                output.note()
                output.note(headline(context, task))
                progress.show("created", f"0 of {len(STEPS)} steps are done")
                answer = await context.client.result(task.id, wait_seconds=_WAIT_SECONDS)
            self._note(answer.task.status, answer.result.text if answer.result else "")
        self.is_running = False
        is_kept = answer.task.status == "completed" and shop.count("charge") == 1
        counts = {what: shop.count(what) for what in STEPS}
        if output.as_json:
            document = answer.document()
            output.document({"ok": is_kept, "task": document["task"], "requests": counts, "timeline": self._timeline()})
        else:
            self._show_timeline(output, answer.task, counts)
        return answer.task if is_kept else None

    def _note(self, what: str, words: str, *, at: float | None = None) -> None:
        self._moments.append(((at or time.monotonic()) - self._began, what, words))

    def _timeline(self) -> list[dict[str, JsonValue]]:
        return [{"seconds": round(at, 1), "what": what, "text": words} for at, what, words in sorted(self._moments)]

    def _show_timeline(self, output: Output, task: Task, counts: dict[str, int]) -> None:
        """Print when what has happened, and how often the shop has charged."""
        output.note(summary_line(task) + "\n")
        output.show(
            FittingTable(
                (Column("TIME", justify="right"), Column("EVENT", style="cyan"), Column("")),
                [(f"{at:.1f} s", escape(what), escape(words)) for at, what, words in sorted(self._moments)],
            )
        )
        asked = ", ".join(f"{what} {count}" for what, count in counts.items())
        if counts["charge"] == 1:
            output.show(f"\n[bold green]✓ charged once[/]  [dim]requests to the shop: {asked}[/]\n")
        else:
            output.show(f"\n[bold red]✗ charged {counts['charge']} times[/]  [dim]requests to the shop: {asked}[/]\n")


@dataclass(frozen=True)
class Request:
    """A request that the shop has received."""

    what: str
    key: str
    worker: int
    """Process that sent it."""
    at: float
    """Time, in the seconds of `time.monotonic`."""


class Shop:
    """A shop on a free port of this machine, while the block runs. It counts its requests."""

    def __init__(self, on_request: Callable[[Request], None], *, work_seconds: float = 0.4) -> None:
        """`on_request` is called in a thread for each request, before the shop works on it for `work_seconds`."""
        self.requests: list[Request] = []
        self._on_request = on_request
        self._work_seconds = work_seconds
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def count(self, what: str) -> int:
        """Number of requests of this kind."""
        return sum(request.what == what for request in self.requests)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                given: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = Request(self.path.strip("/"), given["key"], given["worker"], time.monotonic())
                shop.requests.append(request)
                shop._on_request(request)
                time.sleep(shop._work_seconds)
                try:
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(f"{request.what} of {given['item']}".encode())
                except OSError:
                    pass  # The worker was killed.

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing."""

        return Handler
