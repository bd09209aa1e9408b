"""`outlast call`: call a tool as a task, and follow it."""

from typing import Annotated, Unpack

import typer
from rich.markup import escape

from outlast.cli.args import read_arguments
from outlast.cli.connection import complete_tool
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.runner import Context, server_command
from outlast.cli.show.follow_task import exit_code_of, going_on, print_rows_beside_progress, show_progress, summary_line
from outlast.cli.show.wording import duration
from outlast.client import Task, TaskAnswer
from outlast.contracts.options import CallOptions

_RESULT_SECONDS = 120


ToolArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOOL",
        help="Name of the tool (`outlast tools ls`), or an Actor as user/name.",
        autocompletion=complete_tool,
    ),
]
JsonArgument = Annotated[
    str | None,
    typer.Argument(metavar="JSON", help="The arguments: a JSON object, @FILE, or - for standard input."),
]
PairOption = Annotated[
    list[str] | None,
    typer.Option("--arg", "-a", metavar="NAME=VALUE", help="One argument; dots reach into objects. Repeatable."),
]
DetachOption = Annotated[bool, typer.Option("--detach", "-d", help="Print the task's id and leave.")]
FollowRowsOption = Annotated[
    bool, typer.Option("--follow-rows", help="Print the rows of its run as they come, one line of JSON each.")
]


@server_command()
async def call(
    context: Context,
    tool: ToolArgument,
    arguments: JsonArgument = None,
    arg: PairOption = None,
    detach: DetachOption = False,
    follow_rows: FollowRowsOption = False,
    **options: Unpack[CallOptions],
) -> ExitCode:
    """Call a tool, show how far it is, print its answer.

    The call is a durable task: Ctrl-C stops the watching, not the task.

    Examples:
      outlast call outlast--sleeper '{"seconds": 5}'
      outlast call call-actor -a actor=outlast/sleeper -a input.seconds=5
      outlast call outlast--site-crawler @input.json --detach
      outlast call outlast--site-crawler @input.json --reuse 6h
      outlast call outlast--site-crawler @input.json --follow-rows > rows.jsonl
    """
    given = read_arguments(arguments, arg or [])
    context.interrupted = CliError(
        "Interrupted while the call was being sent; it may have been accepted.",
        exit_code=ExitCode.INTERRUPTED,
        hint=f"`{context.options.command('tasks ls --limit 3')}` shows the newest tasks.",
    )
    task = await context.client.start(tool, given, **options)
    if detach:
        return leave(context, task)
    answer = await see_through(context, task, rows=follow_rows)
    return show_answer(context, answer, told=follow_rows)


def _origin_text(task: "Task") -> str:
    """How the task came to answer the call, where it was there already."""

    if task.reused is None:
        return ""
    return "already running" if task.reused.joined else f"answered {duration(task.reused.age_seconds)} ago"


async def see_through(context: Context, task: "Task", *, rows: bool = False) -> "TaskAnswer":
    """Follow `task` on the screen until its handler has returned, with its `rows` where they are wanted; its answer."""

    context.interrupted = going_on(context, task.id)
    url = context.client.connection.url
    origin = _origin_text(task)
    told = f"  [dim]reused, {origin}[/]" if origin else ""
    context.output.note(f"[bold]{escape(task.tool)}[/]  [dim]task[/] {escape(task.id)}{told}  [dim]on {escape(url)}[/]")
    if rows:
        await print_rows_beside_progress(context, task)
    elif task.finished_at is None:
        await show_progress(context, task)
    return await context.client.result(task.id, wait_seconds=_RESULT_SECONDS)


def show_answer(context: Context, answer: "TaskAnswer", *, told: bool = False) -> ExitCode:
    """Print an answer; the exit code that goes with it. Where its rows were `told`, only an error is printed."""

    output, task = context.output, answer.task
    if output.as_json:
        output.line(answer.document()) if told else output.document(answer.document())
    elif answer.result is not None:
        output.note(summary_line(task))
        if told:
            output.note(escape(answer.result.text if answer.result.is_error else answer.result.text.partition("\n")[0]))
        else:
            output.text(answer.result.text)
        if answer.result.locator is not None:
            output.command(f"all of it  {context.options.command(f'output get {answer.result.locator} -o FILE')}")
    if answer.result is None and not output.as_json:
        _say_not_done(context, task)
    if not task.is_final:
        return ExitCode.NOT_DONE
    return ExitCode.FAILED if answer.result is not None and answer.result.is_error else exit_code_of(task)


def _say_not_done(context: Context, task: "Task") -> None:
    doing = f": {task.status_message}" if task.status_message else "."
    again = f"`{context.options.command(f'tasks result {task.id} --wait 10m')}` waits for it."
    context.output.error(CliError(f"Task {task.id} is {task.status}{doing}", exit_code=ExitCode.NOT_DONE, hint=again))


def leave(context: Context, task: "Task") -> ExitCode:
    """Print the id of a task that goes on by itself."""
    output, command = context.output, context.options.command
    if output.as_json:
        output.document(task.document())
        return ExitCode.OK
    output.text(task.id)
    output.command(f"watch   {command(f'tasks watch {task.id}')}")
    output.command(f"result  {command(f'tasks result {task.id} --wait 10m')}")
    return ExitCode.OK
