"""Following a task on the screen."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from pydantic import BaseModel, Field
from rich.markup import escape

from outlast.cli.connection import waiting_note, waiting_text
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.prompts import answering
from outlast.cli.runner import Context
from outlast.cli.show.progress import TaskProgress
from outlast.cli.show.task_display import age_seconds, took
from outlast.cli.show.wording import duration, one_line, size, styled_status
from outlast.client import Conflict, Event, InputRequest, Task, TaskRow, Waiting

_LABELS = {
    "created": "created",
    "run_started": "run started",
    "run_resurrected": "run resurrected",
    "status_message": "status",
    "input_required": "input required",
    "isomorphic_handoff": "handed over",
    "input_answered": "answered",
    "output_stored": "output stored",
    "handler_returned": "handler returned",
    "task_completed": "task completed",
    "run_finished": "run finished",
}


class _Questions(BaseModel):
    """Data of the event `input_required`."""

    requests: dict[str, InputRequest] = Field(default_factory=dict[str, InputRequest])


async def show_progress(context: Context, task: Task, *, until_end: bool = False) -> None:
    """Show how far `task` is until its handler has returned, or until its workflow has ended."""
    with TaskProgress(context.output, age_seconds=age_seconds(task)) as progress:
        context.client.on_waiting = _trouble_on(progress)
        async with answering(context, task.id, progress) as answers, context.client.events(task.id) as events:
            async for event in events:
                _update(progress, event)
                answers.hear(event)
                if event.name == "task_completed" and not until_end:
                    break
    context.client.on_waiting = waiting_note(context.output)


async def show_events(context: Context, task: Task, *, after: str | None) -> None:
    """Print `task`'s events as they happen, with a live board under them on a terminal."""
    output = context.output
    if output.as_json or not (output.is_live and output.out.file.isatty()):
        async with context.client.events(task.id, after=after) as events:
            async for event in events:
                output.line(event.document()) if output.as_json else output.show(event_line(event))
        return
    with TaskProgress(output, age_seconds=age_seconds(task)) as progress:
        context.client.on_waiting = _trouble_on(progress)
        async with (
            answering(context, task.id, progress) as answers,
            context.client.events(task.id, after=after) as events,
        ):
            async for event in events:
                _update(progress, event)
                answers.hear(event)
                if event.id is not None:
                    progress.say(event_line(event))


def _trouble_on(progress: TaskProgress) -> Callable[[Waiting | None], None]:
    """Shows on the board what is being waited for."""
    return lambda waiting: progress.trouble(None if waiting is None else waiting_text(waiting))


def going_on(context: Context, task_id: str) -> CliError:
    """The message after Ctrl-C: the task goes on."""
    command = context.options.command
    return CliError(
        f"You stopped watching; task {task_id} goes on.",
        exit_code=ExitCode.INTERRUPTED,
        lines=(
            f"watch   {command(f'tasks watch {task_id}')}",
            f"result  {command(f'tasks result {task_id} --wait 10m')}",
            f"cancel  {command(f'tasks cancel {task_id}')}",
        ),
        problem={"task_id": task_id},
    )


def summary_line(task: Task) -> str:
    """How a task ended, as Rich markup."""
    lasted = took(task) or duration(age_seconds(task))
    return f"{styled_status(task.status)} in {lasted}"


def exit_code_of(task: Task) -> ExitCode:
    """0 for a completed task, 1 for one that failed or was cancelled, 6 for one that is not done."""
    if not task.is_final:
        return ExitCode.NOT_DONE
    return ExitCode.OK if task.status == "completed" else ExitCode.FAILED


def event_line(event: Event) -> str:
    """One event with its time and what it says, as Rich markup."""
    time = _local_clock(event.time)
    label = _LABELS.get(event.name, event.name)
    return f"[dim]{time}[/]  {escape(label):<16}  {_describe(event)}".rstrip()


def _update(progress: TaskProgress, event: Event) -> None:
    """Show what `event` says about the run; how the task ended is shown when the board has been removed."""
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
    """The task's question to its client, in one line."""
    asked = _Questions.model_validate(event.data).requests.values()
    return one_line("; ".join(question.message for question in asked))


def _handed_over(event: Event) -> str:
    return one_line(f"{event.data.get('tool', '')}: {event.data.get('phase', '')}")


def _answered(event: Event) -> str:
    return one_line(f"{event.data.get('key', '')} by {event.data.get('answered_by') or 'the client'}")


_OF_QUESTIONS = {"input_required": _questions, "isomorphic_handoff": _handed_over, "input_answered": _answered}


def _describe(event: Event) -> str:
    data, state = event.data, _state(event)
    if event.name == "created":
        return escape(f"{data.get('tool', '')} ({data.get('mode', '')})")
    if event.name in ("run_started", "run_resurrected"):
        return escape(str(data.get("run_id", "")))
    if event.name == "output_stored":
        return escape(f"{data.get('locator', '')}  {size(float(str(data.get('size_bytes', 0))))}")
    if event.name in _OF_QUESTIONS:
        return escape(_OF_QUESTIONS[event.name](event))
    shown = styled_status(escape(state)) if state and event.name != "handler_returned" else ""
    return "  ".join(part for part in (shown, escape(one_line(_message(event)))) if part)


def _local_clock(time: str | None) -> str:
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S") if time else " " * 8
    except ValueError:
        return " " * 8


async def print_rows(context: Context, task_id: str, *, after: str | None, follow: bool) -> None:
    """Print the rows after the one with id `after`; with `--json` each with its id."""
    async with context.client.rows(task_id, after=after, follow=follow) as rows:
        async for row in rows:
            context.output.line(_line(row, with_id=context.output.as_json))


async def print_rows_beside_progress(context: Context, task: Task) -> None:
    """Print the rows of a task to the end, and on a terminal that does not show them how far it is."""
    printing = _print_any_rows(context, task.id)
    output = context.output
    if output.as_json or not output.is_live or output.out.file.isatty() or task.finished_at is not None:
        await printing
        return
    await asyncio.gather(printing, show_progress(context, task))


async def _print_any_rows(context: Context, task_id: str) -> None:
    with suppress(Conflict):  # It has none: its answer says why.
        await print_rows(context, task_id, after=None, follow=True)


def _line(row: TaskRow, *, with_id: bool) -> object:
    return row.document() if with_id else row.data
