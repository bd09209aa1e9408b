"""Tasks as tables for people."""

from datetime import UTC, datetime

from rich.markup import escape
from rich.table import Table

from activities.models import RunState
from api.cli.wording import ago, duration, local_time, one_line, styled_status
from api.task_models import Task

_WIDE = 110
"""Columns from which a list has room for messages."""


def task_table(tasks: list[Task], *, width: int) -> Table:
    """A list of tasks; ids are never cut."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    id_width = max((len(task.id) for task in tasks), default=2)
    table.add_column("TASK", no_wrap=True, min_width=id_width)
    table.add_column("STATUS", no_wrap=True, min_width=max((len(task.status) + 2 for task in tasks), default=6))
    table.add_column("AGE", no_wrap=True, min_width=max((len(ago(task.created_at)) for task in tasks), default=3))
    table.add_column("TOOL", no_wrap=True, overflow="ellipsis")
    if width >= _WIDE:
        table.add_column("TOOK", no_wrap=True, justify="right")
        table.add_column("MESSAGE", no_wrap=True, overflow="ellipsis")
    for task in tasks:
        cells = [escape(task.id), styled_status(task.status), ago(task.created_at), escape(task.tool)]
        cells += [took(task) or "", escape(one_line(task.status_message))] if width >= _WIDE else []
        table.add_row(*cells)
    return table


def task_sheet(task: Task) -> Table:
    """Everything about one task."""
    sheet = new_sheet()
    sheet.add_row("task", f"[bold]{escape(task.id)}[/]")
    _add(sheet, "status", styled_status(task.status))
    _add(sheet, "message", escape(one_line(task.status_message)))
    _add(sheet, "tool", escape(task.tool))
    _add(sheet, "actor", escape(task.actor or ""))
    _add(sheet, "mode", f"{escape(task.mode)} ({_EXECUTORS[task.executor]})")
    _add(sheet, "session", escape(task.session_id or ""))
    _add(sheet, "created", f"{local_time(task.created_at)} ({ago(task.created_at)})")
    _add(sheet, "finished", f"{local_time(task.finished_at)}, took {took(task)}" if task.finished_at else "")
    if task.run is not None:
        _add_run(sheet, task.run)
    _add(sheet, "workflow", escape(task.workflow_url or ""))
    return sheet


def new_sheet() -> Table:
    """A table of names and values."""
    sheet = Table.grid(padding=(0, 2, 0, 0))
    sheet.add_column(style="dim", no_wrap=True)
    sheet.add_column(overflow="fold")
    return sheet


def took(task: Task) -> str | None:
    """How long a finished task took."""
    return duration((task.finished_at - task.created_at).total_seconds()) if task.finished_at else None


def age_seconds(task: Task) -> float:
    """How old a task is by this machine's clock."""
    return max(0.0, (datetime.now(UTC) - task.created_at).total_seconds())


_EXECUTORS = {
    "none": "answers by itself",
    "sync": "waits for the run",
    "async": "answers when the run has started",
}


def _add_run(sheet: Table, run: RunState) -> None:
    _add(sheet, "run", f"{escape(run.run_id)}  {styled_status(run.status)}")
    _add(sheet, "", escape(one_line(run.status_message)))
    _add(sheet, "", "adopted: the answer to its start had been lost" if run.adopted else "")
    _add(sheet, "dataset", escape(run.dataset_id))
    _add(sheet, "cost", f"{run.usage_total_usd:.4f} US dollars" if run.usage_total_usd is not None else "")
    _add(sheet, "console", escape(run.console_url or ""))


def _add(sheet: Table, name: str, markup: str) -> None:
    if markup:
        sheet.add_row(name, markup)
