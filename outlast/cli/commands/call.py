"""`outlast call`: call a tool as a task, and follow it."""

from typing import Annotated, Unpack

import typer
from rich.markup import escape

from outlast.cli.options import CliError, DetachOption, ExitCode, read_arguments
from outlast.cli.runner import Context, complete_tool, server_command
from outlast.cli.show import follow_task
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
    str | None, typer.Argument(metavar="JSON", help="The arguments: a JSON object, @FILE, or - for standard input.")
]
PairOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg", "-a", metavar="NAME=VALUE", help="One argument; dots separate fields of objects. Repeatable."
    ),
]
FollowRowsOption = Annotated[
    bool, typer.Option("--follow-rows", help="Print the rows of its run as they arrive, as JSON lines.")
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
    """Call a tool, show its progress, and print its answer.

    The call is a durable task: Ctrl-C stops this command, not the task.

    Examples:
      outlast call outlast--sleeper '{"seconds": 5}'
      outlast call call-actor -a actor=outlast/sleeper -a input.seconds=5
      outlast call outlast--site-crawler @input.json --detach
      outlast call outlast--site-crawler @input.json --reuse 6h
      outlast call outlast--site-crawler @input.json --follow-rows > rows.jsonl
    """
    given = read_arguments(arguments, arg or [])
    context.output.interrupted = CliError(
        "Interrupted while the call was being sent; the server may have accepted it.",
        exit_code=ExitCode.INTERRUPTED,
        hint=f"`{context.options.command('tasks ls --limit 3')}` shows the newest tasks.",
    )
    task = await context.client.start(tool, given, **options)
    return await follow(context, task, detach=detach, rows=follow_rows)


async def follow(context: Context, task: Task, *, detach: bool, rows: bool = False) -> ExitCode:
    """Follow `task` and print its answer; if detached, print its id."""
    if not detach:
        return show_answer(context, await wait_for_answer(context, task, rows=rows), with_rows=rows)
    if context.output.as_json:
        context.output.document(task.document())
    else:
        context.output.text(task.id)
        context.suggest(watch=f"tasks watch {task.id}", result=f"tasks result {task.id} --wait 10m")
    return ExitCode.OK


async def wait_for_answer(context: Context, task: Task, *, rows: bool = False) -> TaskAnswer:
    """Show the progress of `task`, and its `rows` if wanted, until its handler has returned."""
    context.output.interrupted = follow_task.after_ctrl_c(context, task.id)
    context.output.note(follow_task.headline(context, task))
    if rows:
        await follow_task.print_rows_beside_progress(context, task)
    elif task.finished_at is None:
        await follow_task.show_progress(context, task)
    return await context.client.result(task.id, wait_seconds=_RESULT_SECONDS)


def show_answer(context: Context, answer: TaskAnswer, *, with_rows: bool = False) -> ExitCode:
    """Print an answer and return its exit code. After rows, only its first line or its error is printed, as a note."""
    output, task, result = context.output, answer.task, answer.result
    if output.as_json:
        output.line(answer.document()) if with_rows else output.document(answer.document())
    elif result is None:
        doing = f": {task.status_message}" if task.status_message else "."
        hint = f"`{context.options.command(f'tasks result {task.id} --wait 10m')}` waits for it."
        output.error(CliError(f"Task {task.id} is {task.status}{doing}", exit_code=ExitCode.NOT_DONE, hint=hint))
    else:
        output.note(follow_task.summary_line(task))
        if with_rows:
            output.note(escape(result.text if result.is_error else result.text.partition("\n")[0]))
        else:
            output.text(result.text)
        if result.locator is not None:
            context.suggest(all_of_it=f"output get {result.locator} -o FILE")
    if not task.is_final:
        return ExitCode.NOT_DONE
    return ExitCode.FAILED if result is not None and result.is_error else follow_task.exit_code_of(task)
