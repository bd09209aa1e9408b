"""`outlast tasks`: list, look at, watch, collect, answer, cancel and resurrect tasks."""

from dataclasses import dataclass
from typing import Annotated, Literal, Unpack

import typer
from rich.markup import escape

from outlast.cli.args import Given, parse_duration, question_key
from outlast.cli.commands.call import DetachOption, leave, see_through, show_answer
from outlast.cli.connection import complete_asking, complete_task, complete_tool
from outlast.cli.errors import ExitCode
from outlast.cli.prompts import ask_until_taken, submit, typed_lines
from outlast.cli.runner import Context, server_command
from outlast.cli.show.follow_task import exit_code_of, going_on, print_rows, show_events, show_progress, summary_line
from outlast.cli.show.task_display import TASK_COLUMNS, show_waiting, task_row, task_sheet
from outlast.client import Task
from outlast.contracts.options import ResurrectOptions

app = typer.Typer(no_args_is_help=True, help="List, look at, watch, collect, answer and cancel tasks.")

TaskIdArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="Id of the task.", show_default=False, autocompletion=complete_task)
]
AskingTaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="Id of the task.", show_default=False, autocompletion=complete_asking)
]
Status = Literal["queued", "working", "input_required", "completed", "failed", "cancelled"]

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Listing:
    """Which tasks to list, and how many."""

    status: str | None
    tool: str | None
    session_id: str | None
    batch_id: str | None
    schedule_id: str | None
    limit: int
    page_token: str | None


@app.command()
@server_command()
async def ls(
    context: Context,
    status: Annotated[Status | None, typer.Option(help="Only tasks in this state.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.", autocompletion=complete_tool)] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only calls of this session.")] = None,
    batch: Annotated[str | None, typer.Option(metavar="ID", help="Only items of this batch.")] = None,
    schedule: Annotated[str | None, typer.Option(metavar="ID", help="Only what this schedule has started.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Tasks to list at most.")] = 20,
    page_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="`next_page_token` of the list before (see --json).")
    ] = None,
) -> ExitCode:
    """List your tasks: open ones first, then those that ended last."""
    listing = Listing(status, tool, session, batch, schedule, limit, page_token)
    return await list_tasks(context, listing)


@app.command()
@server_command()
async def waiting(
    context: Context,
) -> ExitCode:
    """List what waits for you: what your tasks ask, and calls of others that you may approve."""
    return await list_waiting(context)


@app.command()
@server_command()
async def get(
    context: Context,
    task_id: TaskIdArgument,
) -> ExitCode:
    """Show one task: its state, its run, where its workflow is."""
    return await get_task(context, task_id)


@app.command()
@server_command()
async def watch(
    context: Context,
    task_id: TaskIdArgument,
    after: Annotated[str | None, typer.Option(metavar="EVENT", help="Only events after the one with this id.")] = None,
) -> ExitCode:
    """Follow a task until its workflow has ended; with --json, one event per line.

    Reconnects when the server goes away. Ctrl-C stops the watching, not the task. The exit code is the task's.
    """
    return await watch_task(context, task_id, after)


@app.command()
@server_command()
async def result(
    context: Context,
    task_id: TaskIdArgument,
    wait: Annotated[
        float | None,
        typer.Option("--wait", "-w", parser=parse_duration, metavar="TIME", help="Wait for it this long: 90s, 10m."),
    ] = None,
) -> ExitCode:
    """Print a task's result. Exit code 6 when there is none yet."""
    return await task_result(context, task_id, wait or 0)


@app.command()
@server_command()
async def rows(
    context: Context,
    task_id: TaskIdArgument,
    after: Annotated[
        str | None,
        typer.Option(metavar="ROW", help="Only rows after the one with this id (see --json), or after so many."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Print the rows to come, too, or only those so far.")
    ] = True,
) -> ExitCode:
    """Print the rows of a task's runs as they come, one line of JSON each; with --json, each with its id.

    Reconnects when the server goes away; no row comes twice. Ctrl-C stops the printing, not the task.

    Examples:
      outlast tasks rows TASK > rows.jsonl
      outlast tasks rows TASK --after "$(wc -l < rows.jsonl)" >> rows.jsonl
    """
    return await task_rows(context, task_id, after, follow=follow)


@app.command()
@server_command()
async def cancel(
    context: Context,
    task_id: TaskIdArgument,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Stay until the task has ended.")] = False,
) -> ExitCode:
    """Cancel a task and abort its run.

    The task is cancelled once the platform says that the run has ended.
    """
    return await cancel_task(context, task_id, wait=wait)


@app.command()
@server_command()
async def resurrect(
    context: Context,
    task_id: TaskIdArgument,
    detach: DetachOption = False,
    **changes: Unpack[ResurrectOptions],
) -> ExitCode:
    """Have the run of an ended task go on, instead of paying a new one.

    A new task follows it to its answer, with what the run produced in all its lives. Limits take the place of the
    call's: those on cost hold over all lives of the run, that on time for the new one.

    Examples:
      outlast tasks resurrect TASK --max-run-time 1h
      outlast tasks resurrect TASK --memory 4096 --force
    """
    task = await context.client.resurrect(task_id, **changes)
    if detach:
        return leave(context, task)
    return show_answer(context, await see_through(context, task))


@app.command()
@server_command()
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
        list[str] | None,
        typer.Option("--arg", "-a", metavar="NAME=VALUE", help="One field of the answer. Repeatable."),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Which question, when there are several.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve the call.")] = False,
    no: Annotated[bool, typer.Option("--no", help="Do not approve the call.")] = False,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="A note with the approval.")] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Give no answer.")] = False,
) -> ExitCode:
    """Answer what a task asks: with what is given here, else by asking you.

    Examples:
      outlast tasks answer TASK --yes --note "Go ahead"
      outlast tasks answer TASK -a colour=red
    """
    given = Given(content, arg or [], key, "yes" if yes else "no" if no else None, note, decline)
    return await answer_task(context, task_id, given)


async def answer_task(context: Context, task_id: str, given: Given) -> ExitCode:
    """Send one answer, typed on the command line or on the terminal."""

    task = await context.client.get(task_id)
    key = question_key(task, given)
    asked = (task.input_requests or {}).get(key)
    if given.says_something or asked is None:
        task = await submit(context, task, key, given.answer())
    else:
        async with typed_lines() as lines:
            task = await ask_until_taken(context, lines, task, key, asked)
    if context.output.as_json:
        context.output.document(task.document())
        return ExitCode.OK
    context.output.note(f"{escape(task_id)} has the answer to {escape(key)}.")
    if asked is None or not asked.approvers:  # an approver of another's call sees no result
        context.output.command(f"result  {context.options.command(f'tasks result {task_id} --wait 10m')}")
    return ExitCode.OK


async def list_tasks(context: Context, listing: Listing) -> ExitCode:
    """Print as many tasks as asked for, page by page."""

    tasks: list[Task] = []
    page_token = listing.page_token
    while True:
        page = await context.client.list_page(
            status=listing.status,
            tool=listing.tool,
            session_id=listing.session_id,
            batch_id=listing.batch_id,
            schedule_id=listing.schedule_id,
            page_size=min(listing.limit - len(tasks), _PAGE),
            page_token=page_token,
        )
        tasks += page.tasks
        page_token = page.next_page_token
        if page_token is None or len(tasks) >= listing.limit:
            break
    output = context.output
    if output.as_json:
        rows = [task.document() for task in tasks]
        output.document({"tasks": rows, "next_page_token": page_token})
    elif not tasks:
        output.note(_nothing_listed(context, listing))
    else:
        output.table(TASK_COLUMNS, [task_row(task) for task in tasks])
        if page_token is not None:
            output.note(f"[dim]The newest {len(tasks)}; --limit {listing.limit * 5} shows more.[/]")
    return ExitCode.OK


async def list_waiting(context: Context) -> ExitCode:
    """Print what waits for the caller."""

    return await show_waiting(context)


async def get_task(context: Context, task_id: str) -> ExitCode:
    """Print one task."""

    task = await context.client.get(task_id)
    if context.output.as_json:
        context.output.document(task.document())
    else:
        context.output.sheet(task_sheet(task))
    return ExitCode.OK


async def watch_task(context: Context, task_id: str, after: str | None) -> ExitCode:
    """Print a task's events to the end."""

    task = await context.client.get(task_id)
    context.interrupted = going_on(context, task_id)
    await show_events(context, task, after=after)
    task = await context.client.get(task_id)
    context.output.note(summary_line(task))
    context.output.command(f"result  {context.options.command(f'tasks result {task_id}')}")
    return exit_code_of(task)


async def task_result(context: Context, task_id: str, wait_seconds: float) -> ExitCode:
    """Print the result of a task."""

    if wait_seconds > 0:
        context.interrupted = going_on(context, task_id)
    return show_answer(context, await context.client.result(task_id, wait_seconds=wait_seconds))


async def task_rows(context: Context, task_id: str, after: str | None, *, follow: bool) -> ExitCode:
    """Print the rows of a task."""

    context.interrupted = going_on(context, task_id)
    await print_rows(context, task_id, after=after, follow=follow)
    return ExitCode.OK


async def cancel_task(context: Context, task_id: str, *, wait: bool) -> ExitCode:
    """Ask for a task to be cancelled and, if told to, stay until it has ended."""

    output = context.output
    task = await context.client.cancel(task_id)
    if wait:
        context.interrupted = going_on(context, task_id)
        await show_progress(context, task, until_end=True)
        task = await context.client.get(task_id)
    if output.as_json:
        output.document(task.document())
    elif task.finished_at is not None:
        output.note(summary_line(task))
    else:
        output.note(f"Cancelling {escape(task_id)}: it is cancelled once its run has ended.")
        output.command(f"watch  {context.options.command(f'tasks watch {task_id}')}")
    return ExitCode.OK


def _nothing_listed(context: Context, listing: Listing) -> str:
    if any((listing.status, listing.tool, listing.session_id, listing.batch_id, listing.schedule_id)):
        return "No task matches."
    command = context.options.command("""call outlast--sleeper '{"seconds": 5}'""")
    return f"No tasks yet. Start one: [bold]{escape(command)}[/]"
