"""The picture that `outlast top` shows: counts, money, queues, workers and open tasks, cut to the terminal's height."""

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.text import Text

from outlast.cli.show.tables import Column, FittingTable
from outlast.cli.show.wording import ago, counted, duration, one_line, styled_status
from outlast.client import Operations, UsageReport

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
    """The latest figures. They are drawn again whenever the terminal asks for them."""

    def __init__(self, url: str) -> None:
        """Show the server at `url`."""
        self._url = url
        self.operations: Operations | None = None
        self.usage: UsageReport | None = None
        self.usage_problem: str | None = None
        self.trouble: str | None = None
        """The reason of the wait, while the server does not answer."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it as Rich asks for it: on a terminal, no longer than the screen."""
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


_NO_WORKER = Text.from_markup("\n[bold red]✗[/] No worker asks for work: tasks wait until one does.")


def _counts(found: Operations) -> str:
    counts = found.counts
    now = [
        f"{styled_status('working')} {counts.working}",
        f"{styled_status('queued')} {counts.queued}",
        f"{styled_status('input_required')} {counts.input_required}",
        f"[dim]run goes on[/] {counts.answered}",
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
