"""`outlast call`: call a tool as a task; `outlast tasks`: list, watch, collect, answer, cancel and continue tasks."""

import sys
from pathlib import Path
from typing import Annotated, Any, Unpack

import typer
from rich.markup import escape

from outlast.cli.options import BadInput, CliError, DetachOption, ExitCode, read_arguments, read_result, time_option
from outlast.cli.prompts import ask_until_accepted, typed_lines
from outlast.cli.runner import Context, complete_asking, complete_task, complete_tool, server_command
from outlast.cli.show import follow_task
from outlast.cli.show.task_display import show_waiting, task_sheet, task_table
from outlast.client import Task, TaskAnswer
from outlast.contracts.options import CallOptions, ResurrectOptions, SharedOptions, TaskFilter

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


@server_command()
async def run(
    context: Context,
    program: Annotated[Path, typer.Argument(metavar="FILE", help="The program, in Python, or - for standard input.")],
    arg: PairOption = None,
    tools: Annotated[
        list[str] | None, typer.Option("--tools", metavar="NAME", help="A tool that it may call, with `*`. Repeatable.")
    ] = None,
    detach: DetachOption = False,
    **options: Unpack[CallOptions],
) -> ExitCode:
    """Run a program whose calls of tools are tasks, and print its value.

    Each tool is an async function with its name; `-a` sets variables of the program. It is a durable task: Ctrl-C stops
    this command, not the program.

    Examples:
      outlast run report.py
      outlast run report.py -a city=Prague --tools 'git__*' --detach
    """
    try:
        code = sys.stdin.read() if str(program) == "-" else program.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"Cannot read {program}: {getattr(error, 'strerror', None) or 'it is not text in UTF-8'}."
        ) from None
    given: dict[str, Any] = {"code": code, "inputs": read_arguments(None, arg or [])}
    if tools:
        given["tools"] = tools
    task = await context.client.start("run-program", given, **options)
    return await follow(context, task, detach=detach)


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


app = typer.Typer(
    name="tasks", no_args_is_help=True, help="List, show, watch, answer and cancel tasks, and collect results."
)

TaskIdArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="Id of the task.", show_default=False, autocompletion=complete_task)
]
AskingTaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="Id of the task.", show_default=False, autocompletion=complete_asking)
]
_PAGE = 200


@server_command(app)
async def ls(
    context: Context,
    of_tool: Annotated[
        str | None, typer.Option("--tool", help="Only calls of this tool.", autocompletion=complete_tool)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of tasks.")] = 20,
    page_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="`next_page_token` of the previous page (see --json).")
    ] = None,
    **filters: Unpack[TaskFilter],
) -> None:
    """List your tasks, or with --caller those of others: open ones first, then the most recently ended.

    Examples:
      outlast tasks ls --status failed --since 24h
      outlast tasks ls --caller '*' --since 1h
    """
    filters["tool"] = of_tool
    tasks: list[Task] = []
    while True:
        size = min(limit - len(tasks), _PAGE)
        page = await context.client.list_page(**filters, page_size=size, page_token=page_token)
        tasks += page.tasks
        page_token = page.next_page_token
        if page_token is None or len(tasks) >= limit:
            break
    output = context.output
    if output.as_json:
        output.document({"tasks": [task.document() for task in tasks], "next_page_token": page_token})
    elif tasks:
        output.table(*task_table(tasks, with_caller=filters.get("caller") is not None))
        if page_token is not None:
            output.note(f"[dim]The newest {len(tasks)}; --limit {limit * 5} shows more.[/]")
    elif any(filters.values()):
        output.note("No task matches.")
    else:
        command = context.options.command("""call outlast--sleeper '{"seconds": 5}'""")
        output.note(f"No tasks yet. Start one: [bold]{escape(command)}[/]")


@server_command(app)
async def waiting(context: Context) -> None:
    """List what waits for you: questions of your tasks, and calls of others that you may approve."""
    await show_waiting(context)


@server_command(app)
async def get(context: Context, task_id: TaskIdArgument) -> None:
    """Show a task: its status, its run, and the address of its workflow."""
    context.output.item(await context.client.get(task_id), task_sheet)


@server_command(app)
async def watch(
    context: Context,
    task_id: TaskIdArgument,
    after: Annotated[str | None, typer.Option(metavar="EVENT", help="Only events after the one with this id.")] = None,
) -> ExitCode:
    """Follow a task until its workflow has ended; with --json, print one event per line.

    A lost connection is restored. Ctrl-C stops this command, not the task. The exit code is that of the task.
    """
    task = await context.client.get(task_id)
    context.output.interrupted = follow_task.after_ctrl_c(context, task_id)
    await follow_task.show_events(context, task, after=after)
    task = await context.client.get(task_id)
    context.output.note(follow_task.summary_line(task))
    context.suggest(result=f"tasks result {task_id}")
    return follow_task.exit_code_of(task)


@server_command(app)
async def result(
    context: Context,
    task_id: TaskIdArgument,
    wait: Annotated[float | None, time_option("Wait for it this long: 90s, 10m.", "--wait", "-w")] = None,
) -> ExitCode:
    """Print the result of a task. The exit code is 6 if there is none yet."""
    if wait:
        context.output.interrupted = follow_task.after_ctrl_c(context, task_id)
    return show_answer(context, await context.client.result(task_id, wait_seconds=wait or 0))


@server_command(app)
async def rows(
    context: Context,
    task_id: TaskIdArgument,
    after: Annotated[
        str | None,
        typer.Option(metavar="ROW", help="Only rows after the one with this id (see --json), or after this many."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Print rows as they arrive, or only those that exist.")
    ] = True,
) -> None:
    """Print the rows of a task's runs as they arrive, as JSON lines; with --json, each with its id.

    A lost connection is restored, and no row is repeated. Ctrl-C stops this command, not the task.

    Examples:
      outlast tasks rows TASK > rows.jsonl
      outlast tasks rows TASK --after "$(wc -l < rows.jsonl)" >> rows.jsonl
    """
    context.output.interrupted = follow_task.after_ctrl_c(context, task_id)
    await follow_task.print_rows(context, task_id, after=after, follow=follow)


@server_command(app)
async def cancel(
    context: Context,
    task_id: TaskIdArgument,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until the task has ended.")] = False,
) -> None:
    """Cancel a task and abort its run, if it has one.

    The task is cancelled when the tool has stopped, and the platform reports that the run has ended.
    """
    output, task = context.output, await context.client.cancel(task_id)
    if wait:
        output.interrupted = follow_task.after_ctrl_c(context, task_id)
        await follow_task.show_progress(context, task, until_end=True)
        task = await context.client.get(task_id)
    if task.finished_at is not None:
        output.done(task.document(), follow_task.summary_line(task))
    else:
        ends = "its run has ended" if task.run is not None else "the tool has stopped"
        output.done(task.document(), f"Cancelling {escape(task_id)}: it is cancelled when {ends}.")
        context.suggest(watch=f"tasks watch {task_id}")


@server_command(app)
async def again(
    context: Context,
    task_id: TaskIdArgument,
    arguments: Annotated[
        str | None,
        typer.Argument(metavar="JSON", help="Arguments to change: a JSON object, @FILE, or - for standard input."),
    ] = None,
    arg: PairOption = None,
    detach: DetachOption = False,
    **options: Unpack[SharedOptions],
) -> ExitCode:
    """Make the call of a task again, in a new task, with the same arguments or with changes.

    Examples:
      outlast tasks again TASK
      outlast tasks again TASK -a seconds=10 --max-usd 2
    """
    changes = read_arguments(arguments, arg or [])
    return await follow(context, await context.client.again(task_id, changes, **options), detach=detach)


@server_command(app)
async def resurrect(
    context: Context, task_id: TaskIdArgument, detach: DetachOption = False, **changes: Unpack[ResurrectOptions]
) -> ExitCode:
    """Resurrect the run of an ended task, instead of paying for a new run.

    A new task follows the run to its answer, which includes the earlier output of the run. Limits replace those of the
    call: limits on cost apply to the whole run, limits on time to the new task.

    Examples:
      outlast tasks resurrect TASK --max-run-time 1h
      outlast tasks resurrect TASK --memory 4096 --force
    """
    return await follow(context, await context.client.resurrect(task_id, **changes), detach=detach)


@server_command(app)
async def resolve(
    context: Context,
    task_id: TaskIdArgument,
    result: Annotated[
        str | None,
        typer.Argument(metavar="JSON", help="With --done: the result, as JSON, @FILE, or - for standard input."),
    ] = None,
    done: Annotated[bool, typer.Option("--done", help="It was executed.")] = False,
    not_done: Annotated[bool, typer.Option("--not-done", help="It was not executed, and may be called again.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Call it again, with the same arguments.")] = False,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason, for readers of the task.")] = None,
) -> None:
    """Record whether a call that ended with `outcome_unknown` was executed.

    Check first: the tool may have done its work. The first resolution is final.

    Examples:
      outlast tasks resolve TASK --done '{"invoice": 4711}'
      outlast tasks resolve TASK --retry --note "No invoice was sent"
    """
    if done + not_done + retry != 1:
        raise BadInput("Say what was found out.", hint="Give one of --done, --not-done and --retry.")
    if result is not None and not done:
        raise BadInput("Only a call that was done has a result.", hint="Give the result with --done.")
    value = None if result is None else read_result(result)
    outcome = "done" if done else "not_done" if not_done else "retry"
    task = await context.client.resolve(task_id, outcome, result=value, note=note)
    context.output.done(task.document(), escape(task.status_message or f"{task_id} is resolved."))
    if task.resolution is not None and task.resolution.task_id is not None:
        context.suggest(watch=f"tasks watch {task.resolution.task_id}")


@server_command(app)
async def answer(
    context: Context,
    task_id: AskingTaskArgument,
    content: Annotated[
        str | None,
        typer.Argument(
            metavar="JSON", help="The answer: a JSON object, @FILE, or - for standard input.", show_default=False
        ),
    ] = None,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", "-a", metavar="NAME=VALUE", help="One field of the answer. Repeatable.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The question, if there are several.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve the call.")] = False,
    no: Annotated[bool, typer.Option("--no", help="Reject the call.")] = False,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="A note with the approval.")] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Decline to answer.")] = False,
) -> None:
    """Answer the question of a task, with the given answer or else by prompting for one.

    Examples:
      outlast tasks answer TASK --yes --note "Go ahead"
      outlast tasks answer TASK -a colour=red
    """
    task = await context.client.get(task_id)
    key = _question_key(task, key)
    question = (task.input_requests or {}).get(key)
    is_given = content is not None or bool(arg) or yes or no or decline
    if not is_given and not sys.stdin.isatty():
        raise BadInput("There is no answer.", hint="Give --yes, --no, --decline, JSON, or -a name=value.")
    if is_given or question is None:
        given: dict[str, Any] = {"action": "decline"} if decline else {"content": read_arguments(content, arg or [])}
        if not decline:
            given["content"] |= {"decision": "yes" if yes else "no"} if yes or no else {}
            given["content"] |= {"note": note} if note else {}
        task = await context.client.answer(task.id, key=key, **given)
    else:
        async with typed_lines() as lines:
            task = await ask_until_accepted(context, lines, task, key, question)
    context.output.done(task.document(), f"{escape(task_id)} has received the answer to {escape(key)}.")
    if question is None or not question.approvers:  # the approver of another caller's call sees no result
        context.suggest(result=f"tasks result {task_id} --wait 10m")


def _question_key(task: Task, given: str | None) -> str:
    """Return the key of the question to answer. Raises `CliError` if there is none, `BadInput` if there are several."""
    asked = list(task.input_requests or {})
    if given is not None:
        return given
    if not asked:
        raise CliError(f"Task {task.id} has no open question: it is {task.status}.", exit_code=ExitCode.USAGE)
    if len(asked) > 1:
        raise BadInput(f"Task {task.id} has several questions.", hint=f"Name one with --key: {', '.join(asked)}.")
    return asked[0]
