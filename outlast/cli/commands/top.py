"""`outlast top`: a live view of tasks, queues, workers and cost."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from outlast.cli.options import time_option
from outlast.cli.runner import Context, server_command, waiting_text
from outlast.cli.show.output import Column, FittingTable, ago, one_line, styled_status
from outlast.client import Operations, OutlastError, UsageOptions, UsageReport, Waiting
from outlast.wording import counted, duration

_QUEUE_PREFIX = "outlast-"
_SLOW_SECONDS = 60
_LEAST_TASKS = 3

_QUEUES = (
    Column("QUEUE"),
    Column("WAITING", justify="right"),
    Column("OLDEST", rank=1, justify="right"),
    Column("WORKERS", rank=2, justify="right"),
    Column("IN/S", rank=3, justify="right"),
    Column("OUT/S", rank=3, justify="right"),
)
_WORKERS = (
    Column("WORKER"),
    Column("VERSION", rank=1, least=8),
    Column("SEEN", rank=2),
    Column("SERVES", rank=3, least=10),
)
_TASKS = (
    Column("TASK"),
    Column("STATUS", rank=1),
    Column("FOR", rank=2, justify="right"),
    Column("TOOL", rank=4, least=10),
    Column("CALLER", rank=3, least=8),
)


class TopView:
    """The latest figures, drawn again whenever the terminal needs them."""

    def __init__(self, url: str) -> None:
        """Show the server at `url`."""
        self._url = url
        self.operations: Operations | None = None
        self.usage: UsageReport | None = None
        self.usage_problem: str | None = None
        self.trouble: str | None = None
        """The reason of a wait, while the server does not answer."""

    def document(self) -> dict[str, object]:
        """Return the figures as JSON."""
        operations = self.operations.document() if self.operations else {}
        return {**operations, "usage": self.usage.document() if self.usage else None}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it for Rich: on a terminal, no longer than the screen."""
        yield from console.render(Group(*self._parts(options.height or 0)), options.update(height=None))

    def _parts(self, height: int) -> Iterator[RenderableType]:
        yield self._title()
        if self.trouble:
            yield Text.from_markup(f"[yellow]…[/] {escape(one_line(self.trouble))}")
        found = self.operations
        if found is None:
            return
        above: list[RenderableType] = [Text.from_markup(line) for line in (_counts(found), *self._money())]
        rows = 2 + len(above) + bool(self.trouble)
        if found.queues:
            above += ["", FittingTable(_QUEUES, _queue_rows(found))]
            above += ["", FittingTable(_WORKERS, _worker_rows(found))] if found.workers else [_NO_WORKER]
            rows += len(found.queues) + len(found.workers) + 4
        yield from above
        tasks = _task_rows(found)
        left = max(height - rows - 2, _LEAST_TASKS) if height else len(tasks)
        if tasks:
            yield ""
            yield FittingTable(_TASKS, tasks[:left])

    def _title(self) -> Text:
        found = self.operations
        whose = "" if found is None else "all callers" if found.scope == "all" else "your tasks"
        clock = "" if found is None else f"{found.at.astimezone():%H:%M:%S}"
        return Text.from_markup(f"[bold]Outlast[/]  {escape(self._url)}  [dim]{whose}  {clock}[/]".rstrip())

    def _money(self) -> list[str]:
        if self.usage is None:
            return [f"[dim]spent today[/] {escape(self.usage_problem)}"] if self.usage_problem else []
        parts = [f"[dim]spent today[/] {self.usage.total_usd:.2f} US dollars"]
        caps = [cap for cap in self.usage.caps if cap.cap_usd is not None]
        parts += [f"{cap.left_usd or 0:.2f} left of the {cap.cap}'s {cap.cap_usd:.2f}" for cap in caps]
        most = [f"{escape(row.caller)} {row.cost_usd:.2f}" for row in self.usage.rows if row.caller][:3]
        if len(self.usage.rows) > 1:
            parts.append(", ".join(most))
        return ["  [dim]·[/]  ".join(parts)]


_NO_WORKER = Text.from_markup("\n[bold red]✗[/] No worker polls for tasks: they wait until one does.")


def _counts(found: Operations) -> str:
    counts = found.counts
    now = [
        f"{styled_status('working')} {counts.working}",
        f"{styled_status('queued')} {counts.queued}",
        f"{styled_status('input_required')} {counts.input_required}",
        f"[dim]run continues[/] {counts.answered}",
    ]
    marks = (("✓", "green", counts.completed_last_hour), ("✗", "red", counts.failed_last_hour))
    ended = [f"[{style}]{mark}[/] {number}" for mark, style, number in marks]
    return f"{'  '.join(now)}  [dim]last hour[/] {' '.join(ended)} [yellow]■[/] {counts.cancelled_last_hour}"


def _queue_rows(found: Operations) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for queue in found.queues:
        kind = " (workflows)" if queue.kind == "workflows" else ""
        style = "red" if queue.oldest_seconds > _SLOW_SECONDS or not queue.pollers else "default"
        rows.append(
            (
                f"[{style}]{escape(queue.queue.removeprefix(_QUEUE_PREFIX))}{kind}[/]",
                f"{queue.backlog:,}",
                duration(queue.oldest_seconds) if queue.backlog else "-",
                str(queue.pollers),
                f"{queue.added_per_second:.1f}",
                f"{queue.taken_per_second:.1f}",
            )
        )
    return rows


def _worker_rows(found: Operations) -> list[tuple[str, ...]]:
    every = len({queue.queue for queue in found.queues})
    rows: list[tuple[str, ...]] = []
    for worker in found.workers:
        names = [queue.removeprefix(_QUEUE_PREFIX) for queue in worker.queues]
        serves = counted(every, "queue") if len(names) == every else ", ".join(names)
        row = (worker.identity, worker.version or "-", ago(worker.last_seen_at, found.at), serves)
        rows.append(tuple(escape(one_line(cell)) for cell in row))
    return rows


def _task_rows(found: Operations) -> list[tuple[str, ...]]:
    now = max(found.at, datetime.now(UTC))
    return [
        (
            escape(one_line(task.id)),
            styled_status(task.status),
            duration((now - task.started_at).total_seconds()),
            escape(one_line(f"{task.tool} {task.actor}" if task.actor and task.actor != task.tool else task.tool)),
            escape(one_line(task.caller)),
        )
        for task in found.tasks
    ]


_EVERY_SECONDS = 2
_COST_EVERY_SECONDS = 15
_COST_TIMEOUT_SECONDS = 5


@server_command()
async def top(
    context: Context,
    once: Annotated[bool, typer.Option("--once", help="Show it once and exit.")] = False,
    interval: Annotated[float | None, time_option("Time between two updates, at least 1s.", show_default="2s")] = None,
) -> None:
    """Show tasks, queues, workers and cost live, until Ctrl-C.

    You see your own tasks; with the scope `admin`, those of all callers, queues and workers. Without a terminal they
    are shown once; with --json, as one line per update.
    """
    output, view = context.output, TopView(context.client.connection.url)
    seconds = max(interval or _EVERY_SECONDS, 1.0)
    if once or not (output.as_json or output.out.is_terminal):
        view.operations = await context.client.operations()
        await _update_cost(context, view)
        if output.as_json:
            output.document(view.document())
        else:
            output.show(view)
        return
    with suppress(asyncio.CancelledError):  # Ctrl-C is how to leave it
        await (_lines if output.as_json else _live)(context, view, seconds)


async def _lines(context: Context, view: TopView, seconds: float) -> None:
    async with _cost_followed(context, view):
        while True:
            view.operations = await context.client.operations()
            context.output.line(view.document())
            await asyncio.sleep(seconds)


async def _live(context: Context, view: TopView, seconds: float) -> None:
    def show_trouble(waiting: Waiting | None) -> None:
        view.trouble = None if waiting is None else waiting_text(waiting)

    view.operations = await context.client.operations()
    context.client.on_waiting = show_trouble
    with Live(view, console=context.output.out, screen=True, refresh_per_second=4):
        async with _cost_followed(context, view):
            while True:
                await asyncio.sleep(seconds)
                view.operations = await context.client.operations()


@asynccontextmanager
async def _cost_followed(context: Context, view: TopView) -> AsyncGenerator[None]:
    """Update the cost every 15 seconds while the block runs."""

    async def follow() -> None:
        while True:
            if view.operations is not None:
                await _update_cost(context, view)
            await asyncio.sleep(_COST_EVERY_SECONDS if view.operations else 0.1)

    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _update_cost(context: Context, view: TopView) -> None:
    """Read the cost of today (UTC). A worker answers this, so the timeout is short."""
    today = datetime.now(UTC).date()
    sees_all = view.operations is not None and view.operations.scope == "all"
    wanted: UsageOptions = {
        "first_day": today,
        "last_day": today,
        "by": ["caller"],
        "caller": "*" if sees_all else None,
    }
    try:
        async with asyncio.timeout(_COST_TIMEOUT_SECONDS):
            view.usage, view.usage_problem = await context.client.usage(**wanted), None
    except TimeoutError:
        view.usage, view.usage_problem = None, "is unknown: no worker answers"
    except OutlastError as error:
        view.usage, view.usage_problem = None, f"is unknown: {error.message}"
