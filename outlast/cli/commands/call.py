"""`outlast call`: call a tool as a task, and follow it."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape

from outlast.cli.args import UNTIL_HELP, parse_duration, parse_usd, read_arguments, until_of
from outlast.cli.connection import complete_tool
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.runner import Context, server_command
from outlast.cli.show.follow_task import exit_code_of, going_on, print_rows_beside_progress, show_progress, summary_line
from outlast.cli.show.wording import duration
from outlast.client import CallOptions, Task, TaskAnswer

_LIMITS = "Limits"
_RESULT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class CallRequest:
    """The call as the command line describes it."""

    tool: str
    source: str | None
    pairs: list[str]
    mode: str | None
    session: str | None
    idempotency_key: str | None
    deadline_seconds: float | None
    max_usd: float | None
    max_items: int | None
    max_run_seconds: float | None
    reuse: str | None
    refresh: bool
    resurrect: int | None
    detach: bool
    follow_rows: bool
    until: list[str]


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
ModeOption = Annotated[str | None, typer.Option(help="default waits for runs, openai answers once they have started.")]
SessionOption = Annotated[str | None, typer.Option(metavar="ID", help="Conversation that the call belongs to.")]
KeyOption = Annotated[str | None, typer.Option(metavar="KEY", help="The same key and call give the same task.")]


def _limit_option(what: str, **options: Any) -> Any:
    return typer.Option(help=what, rich_help_panel=_LIMITS, **options)


ReuseOption = Annotated[
    str | None,
    typer.Option(
        metavar="AGE", help="Take the answer of an equal call that runs, or is not older than this: 90s, 6h, 7d."
    ),
]
RefreshOption = Annotated[
    bool, typer.Option("--refresh", help="Start it in any case; later calls with --reuse may take its answer.")
]
ResurrectOption = Annotated[
    int | None,
    typer.Option(
        metavar="TIMES", min=0, max=10, help="Have a run that is cut short go on this often, instead of paying again."
    ),
]
DeadlineOption = Annotated[
    float | None,
    _limit_option("The task fails after this: 90s, 10m, 2h.", parser=parse_duration, metavar="TIME"),
]
MaxUsdOption = Annotated[
    float | None, _limit_option("US dollars that the run may cost.", metavar="USD", parser=parse_usd)
]
MaxItemsOption = Annotated[int | None, _limit_option("Rows that the run may produce.", min=1)]
MaxRunTimeOption = Annotated[
    float | None, _limit_option("Time that the run may take.", parser=parse_duration, metavar="TIME")
]

UntilOption = Annotated[list[str] | None, _limit_option(UNTIL_HELP, metavar="CONDITION")]


@server_command()
async def call(
    context: Context,
    tool: ToolArgument,
    arguments: JsonArgument = None,
    arg: PairOption = None,
    detach: DetachOption = False,
    follow_rows: FollowRowsOption = False,
    mode: ModeOption = None,
    session: SessionOption = None,
    idempotency_key: KeyOption = None,
    deadline: DeadlineOption = None,
    max_usd: MaxUsdOption = None,
    max_items: MaxItemsOption = None,
    max_run_time: MaxRunTimeOption = None,
    until: UntilOption = None,
    reuse: ReuseOption = None,
    refresh: RefreshOption = False,
    resurrect: ResurrectOption = None,
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
    request = CallRequest(
        tool,
        arguments,
        arg or [],
        mode,
        session,
        idempotency_key,
        deadline,
        max_usd,
        max_items,
        max_run_time,
        reuse,
        refresh,
        resurrect,
        detach,
        follow_rows,
        until or [],
    )
    return await call_tool(context, request)


async def call_tool(context: Context, request: CallRequest) -> ExitCode:
    """Start the task and, unless detached, follow it to its answer."""
    arguments = read_arguments(request.source, request.pairs)
    context.interrupted = CliError(
        "Interrupted while the call was being sent; it may have been accepted.",
        exit_code=ExitCode.INTERRUPTED,
        hint=f"`{context.options.command('tasks ls --limit 3')}` shows the newest tasks.",
    )
    task = await context.client.start(request.tool, arguments, **_options(request))
    if request.detach:
        return leave(context, task)
    answer = await see_through(context, task, rows=request.follow_rows)
    return show_answer(context, answer, told=request.follow_rows)


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


def _options(request: CallRequest) -> "CallOptions":
    return {
        "mode": request.mode,
        "session_id": request.session,
        "idempotency_key": request.idempotency_key,
        "deadline_seconds": request.deadline_seconds,
        "max_usd": request.max_usd,
        "max_items": request.max_items,
        "max_run_seconds": request.max_run_seconds,
        "reuse": request.reuse,
        "resurrect": request.resurrect,
        "refresh": request.refresh,
        "until": until_of(request.until),
    }
