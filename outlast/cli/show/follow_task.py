"""Shows a task on the terminal while it works: progress, events and rows."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from pydantic import BaseModel, Field
from rich.markup import escape

from outlast.cli.options import CliError, ExitCode
from outlast.cli.prompts import answering
from outlast.cli.runner import Context, waiting_note, waiting_text
from outlast.cli.show.output import one_line, size, styled_status
from outlast.cli.show.progress import TaskProgress
from outlast.cli.show.task_display import age_seconds, took
from outlast.client import Conflict, Event, InputRequest, Task, Waiting
from outlast.wording import duration

_LABELS = {"status_message": "status", "isomorphic_handoff": "handed over", "input_answered": "answered"}
"""Names of events that are not shown as they are."""
_NO_CLOCK = " " * 8


class _Questions(BaseModel):
    """Data of the event `input_required`."""

    requests: dict[str, InputRequest] = Field(default_factory=dict[str, InputRequest])


async def show_progress(context: Context, task: Task, *, until_end: bool = False) -> None:
    """Show the progress of `task` until its handler has returned, or until its workflow has ended."""
    with TaskProgress(context.output, age_seconds=age_seconds(task)) as progress:
        context.client.on_waiting = _trouble_on(progress)
        async with answering(context, task.id, progress) as answers, context.client.events(task.id) as events:
            async for event in events:
                _update(progress, event)
                answers.handle(event)
                if event.name == "task_completed" and not until_end:
                    break
    context.client.on_waiting = waiting_note(context.output)


async def show_events(context: Context, task: Task, *, after: str | None) -> None:
    """Print the events of `task` as they happen; on a terminal, with a live display below them."""
    output = context.output
    if output.as_json or not (output.is_live and output.out.file.isatty()):
        async with context.client.events(task.id, after=after) as events:
            async for event in events:
                output.line(event.document()) if output.as_json else output.show(_event_line(event))
        return
    with TaskProgress(output, age_seconds=age_seconds(task)) as progress:
        context.client.on_waiting = _trouble_on(progress)
        async with (
            answering(context, task.id, progress) as answers,
            context.client.events(task.id, after=after) as events,
        ):
            async for event in events:
                _update(progress, event)
                answers.handle(event)
                if event.id is not None:
                    output.note(_event_line(event))


def _trouble_on(progress: TaskProgress) -> Callable[[Waiting | None], None]:
    return lambda waiting: progress.trouble(None if waiting is None else waiting_text(waiting))


def after_ctrl_c(context: Context, task_id: str) -> CliError:
    """Return the message after Ctrl-C: the task continues."""
    return CliError(
        f"You stopped watching; task {task_id} continues.",
        exit_code=ExitCode.INTERRUPTED,
        lines=context.options.commands(
            watch=f"tasks watch {task_id}",
            result=f"tasks result {task_id} --wait 10m",
            cancel=f"tasks cancel {task_id}",
        ),
        problem={"task_id": task_id},
    )


def headline(context: Context, task: Task) -> str:
    """Return the tool, the id and the server of a task that begins, as Rich markup."""
    reused = ""
    if task.reused is not None:
        age = "already running" if task.reused.joined else f"answered {duration(task.reused.age_seconds)} ago"
        reused = f"  [dim]reused, {age}[/]"
    url = escape(context.client.connection.url)
    return f"[bold]{escape(task.tool)}[/]  [dim]task[/] {escape(task.id)}{reused}  [dim]on {url}[/]"


def summary_line(task: Task) -> str:
    """Return the status of a task and how long it took, as Rich markup."""
    return f"{styled_status(task.status)} in {took(task) or duration(age_seconds(task))}"


def exit_code_of(task: Task) -> ExitCode:
    """Return 0 for a completed task, 1 for a failed or cancelled one, 6 for one that is not done."""
    if not task.is_final:
        return ExitCode.NOT_DONE
    return ExitCode.OK if task.status == "completed" else ExitCode.FAILED


def _event_line(event: Event) -> str:
    label = _LABELS.get(event.name, event.name.replace("_", " "))
    return f"[dim]{_local_clock(event.time)}[/]  {escape(label):<16}  {_describe(event)}".rstrip()


def _update(progress: TaskProgress, event: Event) -> None:
    """Show the state of the run after `event`; the result of the task follows when the display has been removed."""
    if event.name == "created":
        progress.show("created", at=event.time)
    elif event.name == "input_required":
        progress.show("input required", _questions(event), at=event.time)
    elif event.name in ("run_started", "run_resurrected", "status_message", "run_finished"):
        progress.show(_state(event), _message(event), at=event.time)


def _state(event: Event) -> str | None:
    state = event.data.get("run_status") or event.data.get("status")
    return str(state) if state else None


def _message(event: Event) -> str | None:
    message = event.data.get("status_message") or event.data.get("message")
    return str(message) if message else None


def _questions(event: Event) -> str:
    asked = _Questions.model_validate(event.data).requests.values()
    return one_line("; ".join(question.message for question in asked))


def _describe(event: Event) -> str:  # noqa: PLR0911 (one for each kind of event)
    data, state = event.data, _state(event)
    match event.name:
        case "created":
            return escape(f"{data.get('tool', '')} ({data.get('mode', '')})")
        case "run_started" | "run_resurrected":
            return escape(str(data.get("run_id", "")))
        case "output_stored":
            return escape(f"{data.get('locator', '')}  {size(float(str(data.get('size_bytes', 0))))}")
        case "input_required":
            return escape(_questions(event))
        case "isomorphic_handoff":
            return escape(one_line(f"{data.get('tool', '')}: {data.get('phase', '')}"))
        case "input_answered":
            return escape(one_line(f"{data.get('key', '')} by {data.get('answered_by') or 'the client'}"))
        case _:
            shown = styled_status(escape(state)) if state and event.name != "handler_returned" else ""
            return "  ".join(part for part in (shown, escape(one_line(_message(event)))) if part)


def _local_clock(time: str | None) -> str:
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S") if time else _NO_CLOCK
    except ValueError:
        return _NO_CLOCK


async def print_rows(context: Context, task_id: str, *, after: str | None = None, follow: bool = True) -> None:
    """Print the rows after the one with id `after`; with `--json`, each with its id."""
    async with context.client.rows(task_id, after=after, follow=follow) as rows:
        async for row in rows:
            context.output.line(row.document() if context.output.as_json else row.data)


async def print_rows_beside_progress(context: Context, task: Task) -> None:
    """Print the rows of a task to the end; if only standard error is a terminal, show the progress there."""
    output = context.output

    async def print_all() -> None:
        with suppress(Conflict):  # The task has no rows: its answer gives the reason.
            await print_rows(context, task.id)

    if output.as_json or not output.is_live or output.out.file.isatty() or task.finished_at is not None:
        await print_all()
    else:
        await asyncio.gather(print_all(), show_progress(context, task))
