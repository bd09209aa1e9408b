"""`outlast demo`: a tool call whose worker is killed; and a real Actor as a durable task, from nothing to rows."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Unpack, cast
from urllib.parse import urlsplit

import typer
from pydantic import JsonValue
from rich.markup import escape

from outlast.cli.commands.stack import StackReport, address_table, checked_config, stack_errors
from outlast.cli.commands.tasks import wait_for_answer
from outlast.cli.options import DEFAULT_DATA_DIR, CliError, ExitCode, Options, TokenOption
from outlast.cli.runner import Context, connected, local_command
from outlast.cli.show.follow_task import headline, summary_line
from outlast.cli.show.output import Column, FittingTable, Output, one_line, styled_status
from outlast.cli.show.progress import TaskProgress
from outlast.cli.stack_options import DemoFlags, StackDataDirOption
from outlast.client import NotFound, Task, TaskAnswer
from outlast.paths import checkout
from outlast.wording import counted

if TYPE_CHECKING:
    from outlast.deploy.local.config import StackConfig
    from outlast.deploy.local.state import StackAddresses, StackEvent

TOOLS = "outlast.demo_tools"
"""Module of the tool `order`."""
STEPS = ("reserve", "charge", "ship")
_ORDER_SECONDS = 300
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
                answer = await context.client.result(task.id, wait_seconds=_ORDER_SECONDS)
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


_FIELDS = ("url", "title", "metadata", "text", "error")
_MAX_ROWS = 50
_MAX_CALLS = 10
_WAIT_SECONDS = 60
_COLUMNS = (
    Column("PAGE", least=20, most=36, style="cyan"),
    Column("TITLE", rank=1, least=12, most=24),
    Column("WORDS", rank=3, justify="right"),
    Column("TEXT", rank=2, least=12),
)
_SITE_CRAWLER = "outlast--site-crawler"
_APIFY_CRAWLER = "apify--website-content-crawler"
_APIFY_SITE = "https://docs.apify.com/academy/web-scraping-for-beginners"


@local_command()
async def demo(
    output: Output,
    what: Annotated[
        Literal["order", "crawl"],
        typer.Argument(help="order: kill the worker within a tool call. crawl: crawl a site with a real Actor."),
    ] = "order",
    start_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Of crawl: page to start at.", show_default="the site that the stack serves"),
    ] = None,
    max_pages: Annotated[int, typer.Option(min=1, help="Of crawl: maximum number of pages.")] = 20,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the stack running until Ctrl-C.")] = False,
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    token: TokenOption = None,
    **given: Unpack[DemoFlags],
) -> ExitCode:
    """Kill the worker within a tool call, and see the call complete; or crawl a site.

    Starts the stack on the data directory. If one runs there, crawl uses it, and order starts another one in a
    temporary directory, because it kills a worker.
    """
    from outlast.client.http import running_stack  # noqa: PLC0415 (httpx)

    output.as_json = output.as_json or given.get("log_format") == "json"
    running = running_stack(data_dir)
    if what == "crawl":
        output.note("[bold]Outlast demo[/]: a real Actor, run as a durable task\n")
    else:
        output.note("[bold]Outlast demo[/]: an order whose worker is killed after the charge\n")

    async def crawl(addresses: "StackAddresses", *, stays_up: bool) -> ExitCode:
        async with _demo_context(output, addresses, data_dir, token) as context:
            task = await _start_crawl(context, start_url or addresses.docs_site_url or _APIFY_SITE, max_pages)
            return await _show_crawl(context, task, stays_up=stays_up)

    if what == "crawl" and running is not None:
        output.note(f"[green]✓[/] joined the stack that runs on {data_dir} [dim](process {running.pid})[/]")
        return await crawl(running.addresses, stays_up=True)
    with TemporaryDirectory(prefix="outlast-demo-") as temporary:
        if running is not None:
            output.note(f"[dim]The stack on {data_dir} is not used; this is a separate one.[/]\n")
            data_dir = Path(temporary)
        tools = {"tools_from": TOOLS} if what == "order" else {}
        config = await checked_config({"data_dir": data_dir, **given, **tools})
        is_temporary = running is not None
        return await _on_own_stack(
            output, config, token, crawl if what == "crawl" else None, keep=keep, is_temporary=is_temporary
        )


async def _on_own_stack(
    output: Output,
    config: "StackConfig",
    token: str | None,
    crawl: Callable[..., Awaitable[ExitCode]] | None,
    *,
    keep: bool,
    is_temporary: bool,
) -> ExitCode:
    """Start a stack, show the crawl or else the order, and stop it. A temporary data directory is not named."""
    from outlast.deploy.local.stack import Stack  # noqa: PLC0415 (the Temporal SDK)

    report = StackReport(output)
    order = Order()

    def show(event: "StackEvent") -> None:
        order.see(event)
        if not output.as_json and not order.is_running:
            report.show(event)

    with stack_errors(report):
        async with Stack(config, on_event=show) as stack:
            report.is_up()
            if crawl is not None:
                code = await crawl(stack.addresses, stays_up=keep)
            else:
                async with _demo_context(output, stack.addresses, config.data_dir, token) as context:
                    task = await order.show(context, lambda: stack.pid("worker"))
                    if task is not None and (keep or not is_temporary):
                        _show_next_steps(context, task, {}, stays_up=keep)
                    code = ExitCode.FAILED if task is None else ExitCode.OK
            if keep:
                output.note("\n[bold green]The stack keeps running[/] until Ctrl-C.\n")
                output.note(address_table(stack.addresses, config.data_dir))
                await stack.wait()
            report.is_over = True
    return code


@asynccontextmanager
async def _demo_context(
    output: Output, addresses: "StackAddresses", data_dir: Path, token: str | None
) -> AsyncGenerator[Context]:
    options = Options(url=addresses.api_url, token=token, data_dir=data_dir, as_json=output.as_json)
    async with connected(output, options) as context:
        context.options = Options(data_dir=data_dir, as_json=output.as_json)
        yield context


async def _start_crawl(context: Context, start_url: str, max_pages: int) -> Task:
    """Call the crawler of the sandbox, or Apify's own crawler on Apify."""
    start_urls: JsonValue = [{"url": start_url}]
    try:
        await context.client.tool(_SITE_CRAWLER)
    except NotFound:
        arguments = {"startUrls": start_urls, "maxCrawlPages": max_pages, "crawlerType": "cheerio"}
        return await context.client.start(_APIFY_CRAWLER, arguments, max_items=max_pages)
    return await context.client.start(_SITE_CRAWLER, {"startUrls": start_urls, "maxPages": max_pages})


async def _show_crawl(context: Context, task: Task, *, stays_up: bool) -> ExitCode:
    """Follow `task` and show its rows. It is a success if the task is completed and has rows."""
    output = context.output
    output.note()
    answer = await wait_for_answer(context, task)
    run = _run_of(answer)
    rows, total = await _fetch_rows(context, run["dataset"]) if run else ([], 0)
    works = answer.result is not None and not answer.result.is_error and bool(rows)
    if output.as_json:
        document = answer.document()
        output.document({"ok": works, "task": document["task"], "run": run, "rows": rows, "row_count": total})
        return ExitCode.OK if works else ExitCode.FAILED
    output.note(summary_line(answer.task) + "\n")
    if rows:
        output.show(row_table(rows))
        output.show(f"[dim]{counted(total, 'row')} in dataset {escape(run['dataset'])}[/]\n")
    _show_next_steps(context, answer.task, run, stays_up=stays_up)
    if not works:
        error = answer.result.error if answer.result else None
        logs = context.options.data_dir / "logs"
        failure = CliError(
            error.message if error else "The task produced no rows.",
            exit_code=ExitCode.FAILED,
            hint=(error.hint if error else None) or f"Read the logs in {logs}, or run `outlast doctor`.",
        )
        output.error(failure)
    return ExitCode.OK if works else ExitCode.FAILED


async def _fetch_rows(context: Context, dataset_id: str) -> tuple[list[dict[str, Any]], int]:
    """Return the first rows of a dataset, and the number of all its rows."""
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    total = 0
    for _ in range(_MAX_CALLS):
        if offset is None or len(rows) >= _MAX_ROWS:
            break
        fields: list[JsonValue] = [*_FIELDS]
        arguments = {"datasetId": dataset_id, "offset": offset, "limit": _MAX_ROWS - len(rows), "fields": fields}
        task = await context.client.start("get-dataset-items", arguments)
        result = (await context.client.result(task.id, wait_seconds=_WAIT_SECONDS)).result
        page: dict[str, Any] = dict((result.structured if result and not result.is_error else None) or {})
        rows += page.get("items", [])
        offset, total = page.get("nextOffset"), page.get("totalItemCount", 0)
        if not page.get("items"):
            break
    return rows, total


def _run_of(answer: TaskAnswer) -> dict[str, str]:
    """Return the id, the status and the dataset of the run; empty if the call started no run."""
    structured: dict[str, Any] = dict(answer.result.structured or {}) if answer.result else {}
    run = answer.task.run
    if "runId" in structured:
        dataset = structured["storages"]["datasets"]["default"]["id"]
        return {"id": structured["runId"], "status": structured["status"], "dataset": dataset}
    return {"id": run.run_id, "status": run.status, "dataset": run.dataset_id} if run else {}


def row_table(rows: list[dict[str, Any]]) -> FittingTable:
    """Return the rows as a table."""
    return FittingTable(_COLUMNS, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    url = str(row.get("url", ""))
    parts = urlsplit(url)
    path = (parts.path + (f"?{parts.query}" if parts.query else "")) if parts.path not in ("", "/") else url
    if row.get("error"):
        return escape(path), "", "", f"[red]{escape(one_line(str(row['error'])))}[/]"
    text = one_line(str(row.get("text") or ""))
    metadata = cast(dict[str, Any], row["metadata"]) if isinstance(row.get("metadata"), dict) else {}
    title = one_line(str(row.get("title") or metadata.get("title") or ""))  # Apify's own crawler has it in `metadata`
    beginning = text.removeprefix(title).strip()[:200]
    return escape(path), escape(title), f"{len(text.split()):,}", f"[dim]{escape(beginning)}[/]"


def _show_next_steps(context: Context, task: Task, run: dict[str, str], *, stays_up: bool) -> None:
    output, command, data_dir = context.output, context.options.command, context.options.data_dir
    sheet = [("task", f"[bold]{escape(task.id)}[/]")]
    sheet += [("run", f"{escape(run['id'])}  {styled_status(run['status'])}")] if run else []
    sheet += [("workflow", escape(task.workflow_url or ""))]
    output.sheet(sheet)
    output.note()
    if stays_up:
        output.note("See more while the stack runs:")
    else:
        up = "make up" if checkout() is not None and data_dir == DEFAULT_DATA_DIR else command("up")
        output.note(f"The stack stops now; the task stays in {escape(str(data_dir))}.")
        output.note(f"[bold]{escape(up)}[/] starts the stack again, with this task in it; then:")
    output.command(command(f"tasks get {task.id}"))
    output.command(command(f"tasks result {task.id}"))
