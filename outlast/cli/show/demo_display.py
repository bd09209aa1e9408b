"""The output of the demo: the task's progress, its rows, and the addresses where they can be seen."""

from typing import Any
from urllib.parse import urlsplit

from rich.markup import escape

from outlast.cli.commands.call import see_through
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR
from outlast.cli.running import Context
from outlast.cli.show.follow_task import summary_line
from outlast.cli.show.rows import fetch_rows
from outlast.cli.show.tables import Column, FittingTable
from outlast.cli.show.wording import counted, one_line, styled_status
from outlast.client import Task, TaskAnswer
from outlast.paths import checkout

_FIELDS = ("url", "title", "metadata", "text", "error")
_MAX_ROWS = 50
_COLUMNS = (
    Column("PAGE", least=20, most=36, style="cyan"),
    Column("TITLE", rank=1, least=12, most=24),
    Column("WORDS", rank=3, justify="right"),
    Column("TEXT", rank=2, least=12),
)


async def show_demo(context: Context, task: Task, *, stays_up: bool) -> ExitCode:
    """Follow `task` and show its rows. Only a completed task with rows is a success."""
    output = context.output
    output.note()
    answer = await see_through(context, task)
    run = _run_of(answer)
    rows, total = await fetch_rows(context, run["dataset"], fields=_FIELDS, limit=_MAX_ROWS) if run else ([], 0)
    works = answer.result is not None and not answer.result.is_error and bool(rows)
    if output.as_json:
        document = answer.document()
        output.document({"ok": works, "task": document["task"], "run": run, "rows": rows, "row_count": total})
        return ExitCode.OK if works else ExitCode.FAILED
    output.note(summary_line(answer.task) + "\n")
    if rows:
        output.show(row_table(rows))
        output.show(f"[dim]{counted(total, 'row')} in dataset {escape(run['dataset'])}[/]\n")
    _show_whereabouts(context, answer, run, stays_up=stays_up)
    if not works:
        output.error(_failure(context, answer))
    return ExitCode.OK if works else ExitCode.FAILED


def _run_of(answer: TaskAnswer) -> dict[str, str]:
    """The run's id, status and dataset, as the tool answered; empty when no run came of the call."""
    structured: dict[str, Any] = dict(answer.result.structured or {}) if answer.result else {}
    run = answer.task.run
    if "runId" in structured:
        dataset = structured["storages"]["datasets"]["default"]["id"]
        return {"id": structured["runId"], "status": structured["status"], "dataset": dataset}
    return {"id": run.run_id, "status": run.status, "dataset": run.dataset_id} if run else {}


def row_table(rows: list[dict[str, Any]]) -> FittingTable:
    """The rows as a table: of few columns on a narrow terminal."""
    return FittingTable(_COLUMNS, [(escape(_short_address(str(row.get("url", "")))), *_cells(row)) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    if row.get("error"):
        return "", "", f"[red]{escape(one_line(str(row['error'])))}[/]"
    text = one_line(str(row.get("text") or ""))
    title = one_line(str(row.get("title") or _metadata_title(row) or ""))
    beginning = text.removeprefix(title).strip()[:200]
    return escape(title), f"{len(text.split()):,}", f"[dim]{escape(beginning)}[/]"


def _metadata_title(row: dict[str, Any]) -> Any:
    """Where Apify's own crawler has the title."""
    metadata: Any = row.get("metadata")
    return metadata.get("title") if isinstance(metadata, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _short_address(url: str) -> str:
    """A page's path, or its whole address when that is all there is."""
    parts = urlsplit(url)
    return (parts.path + (f"?{parts.query}" if parts.query else "")) if parts.path not in ("", "/") else url


def _show_whereabouts(context: Context, answer: TaskAnswer, run: dict[str, str], *, stays_up: bool) -> None:
    task, output, command = answer.task, context.output, context.options.command
    sheet = [("task", f"[bold]{escape(task.id)}[/]")]
    sheet += [("run", f"{escape(run['id'])}  {styled_status(run['status'])}")] if run else []
    sheet += [("workflow", escape(task.workflow_url))] if task.workflow_url else []
    output.sheet(sheet)
    output.note()
    if stays_up:
        output.note("Look closer while the stack is up:")
    else:
        data_dir = context.options.data_dir
        in_checkout = checkout() is not None and data_dir == DEFAULT_DATA_DIR
        up = "make up" if in_checkout else command("up")
        output.note(f"The stack stops now; the task stays in {escape(str(data_dir))}.")
        output.note(f"[bold]{escape(up)}[/] brings the stack back with this task in it; then:")
    output.command(command(f"tasks get {task.id}"))
    output.command(command(f"tasks result {task.id}"))


def _failure(context: Context, answer: TaskAnswer) -> CliError:
    error = answer.result.error if answer.result else None
    logs = context.options.data_dir / "logs"
    return CliError(
        error.message if error else "The task gave no rows.",
        exit_code=ExitCode.FAILED,
        hint=(error.hint if error else None) or f"The logs in {logs} say more; `outlast doctor` looks at every part.",
    )
