"""Tasks as tables for people."""

from datetime import UTC, datetime

from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outlast.api.cli.show.wording import ago, duration, local_time, one_line, styled_status
from outlast.client import Run, Task

_WIDE = 110
"""Columns from which a list has room for messages."""


def task_table(tasks: list[Task], *, width: int) -> Table:
    """A list of tasks for a terminal of this width; ids are never cut."""
    rows = [_cells(task) for task in tasks]
    titles = (
        ["TASK", "STATUS", "AGE", "TOOK", "TOOL", "MESSAGE"] if width >= _WIDE else ["TASK", "STATUS", "AGE", "TOOL"]
    )
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    rest = width
    for title in titles:
        widest = max([len(title), *(cell_len(Text.from_markup(row[title]).plain) for row in rows)])
        column_width = max(min(widest, rest), len(title))
        table.add_column(title, no_wrap=True, overflow="ellipsis", width=column_width)
        rest -= column_width + 2
    for row in rows:
        table.add_row(*(row[title] for title in titles))
    return table


def task_sheet(task: Task) -> list[tuple[str, str]]:
    """Everything about one task: names and values in Rich markup."""
    rows = [
        ("task", f"[bold]{escape(task.id)}[/]"),
        ("status", styled_status(task.status)),
        ("message", escape(one_line(task.status_message))),
        *(("asks", escape(one_line(question.message))) for question in (task.input_requests or {}).values()),
        ("tool", escape(task.tool)),
        ("actor", escape(task.actor or "")),
        ("mode", f"{escape(task.mode)} ({_EXECUTORS.get(task.executor, task.executor)})"),
        ("session", escape(task.session_id or "")),
        ("created", f"{local_time(task.created_at)} ({ago(task.created_at)})"),
        ("finished", f"{local_time(task.finished_at)}, took {took(task)}" if task.finished_at else ""),
        *(_run_rows(task.run, said=task.status_message or "") if task.run else []),
        ("workflow", escape(task.workflow_url or "")),
    ]
    return [(name, value) for name, value in rows if value]


def _cells(task: Task) -> dict[str, str]:
    return {
        "TASK": escape(task.id),
        "STATUS": styled_status(task.status),
        "AGE": ago(task.created_at),
        "TOOK": took(task) or "",
        "TOOL": escape(task.tool),
        "MESSAGE": escape(one_line(task.status_message)),
    }


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


def _run_rows(run: Run, *, said: str) -> list[tuple[str, str]]:
    message = run.status_message or ""
    return [
        ("run", f"{escape(run.run_id)}  {styled_status(run.status)}"),
        ("", escape(one_line(message)) if message not in said else ""),
        ("", "adopted: the answer to its start had been lost" if run.adopted else ""),
        ("dataset", escape(run.dataset_id)),
        ("cost", f"{run.usage_total_usd:.4f} US dollars" if run.usage_total_usd is not None else ""),
        ("console", escape(run.console_url or "")),
    ]
