"""Tasks as tables for people."""

from datetime import UTC, datetime

from rich.markup import escape

from outlast.cli.show.questions import question_rows
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, duration, local_time, one_line, styled_status
from outlast.client import Run, Task

TASK_COLUMNS = (
    Column("TASK"),
    Column("STATUS", rank=1),
    Column("AGE", rank=3),
    Column("TOOK", rank=4),
    Column("TOOL", rank=2, least=12),
    Column("MESSAGE", rank=5, least=20),
)


def task_row(task: Task) -> tuple[str, ...]:
    """The cells of one task, in the order of `TASK_COLUMNS`."""
    return (
        escape(task.id),
        styled_status(task.status),
        ago(task.created_at),
        took(task) or "",
        escape(task.tool),
        escape(one_line(task.status_message)),
    )


def task_sheet(task: Task) -> list[tuple[str, str]]:
    """Everything about one task: names and values in Rich markup."""
    rows = [
        ("task", f"[bold]{escape(task.id)}[/]"),
        ("status", styled_status(task.status)),
        ("message", escape(one_line(task.status_message))),
        *(row for question in (task.input_requests or {}).values() for row in question_rows(question)),
        ("tool", escape(task.tool)),
        ("actor", escape(task.actor or "")),
        ("mode", f"{escape(task.mode)} ({_EXECUTORS.get(task.executor, task.executor)})"),
        ("session", escape(task.session_id or "")),
        ("created", f"{local_time(task.created_at)} ({ago(task.created_at)})"),
        ("finished", f"{local_time(task.finished_at)}, took {took(task)}" if task.finished_at else ""),
        *(_run_rows(task.run, already_shown=task.status_message or "") if task.run else []),
        ("cost", f"{task.cost_usd:.4f} US dollars" if task.cost_usd is not None else ""),
        ("workflow", escape(task.workflow_url or "")),
    ]
    return [(name, value) for name, value in rows if value]


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


def _run_rows(run: Run, *, already_shown: str) -> list[tuple[str, str]]:
    message = run.status_message or ""
    return [
        ("run", f"{escape(run.run_id)}  {styled_status(run.status)}"),
        ("", escape(one_line(message)) if message not in already_shown else ""),
        ("", "adopted: the answer to its start had been lost" if run.adopted else ""),
        ("dataset", escape(run.dataset_id)),
        ("console", escape(run.console_url or "")),
    ]
