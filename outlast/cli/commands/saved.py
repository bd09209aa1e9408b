"""`outlast saved`: a tool and its input under a name."""

import json
from collections.abc import Sequence
from typing import Annotated, Unpack

import typer
from rich.markup import escape

from outlast.cli.args import read_arguments
from outlast.cli.commands import call as calling
from outlast.cli.errors import ExitCode
from outlast.cli.runner import Context, server_command
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, local_time, one_line
from outlast.client import SavedCall
from outlast.contracts.options import SavedCallOptions

SAVED_COLUMNS = (
    Column("NAME"),
    Column("TOOL", rank=1, least=12),
    Column("ARGUMENTS", rank=2, least=12, most=60),
    Column("NOTE", rank=3, least=8, most=30),
    Column("AGE", rank=4),
)


def saved_row(saved: SavedCall) -> Sequence[str]:
    """A saved call as a row of a list."""
    note = "[red]damaged[/]" if saved.damaged else escape(one_line(saved.note))
    return (escape(saved.name), escape(saved.tool), escape(_json(saved.arguments)), note, ago(saved.saved_at))


def saved_sheet(saved: SavedCall) -> list[tuple[str, str]]:
    """All that is known of a saved call."""
    rows = [
        ("name", escape(saved.name)),
        ("note", escape(one_line(saved.note))),
        ("damaged", escape(saved.damaged or "")),
        ("tool", escape(saved.tool)),
        ("mode", escape(saved.mode or "")),
        ("arguments", escape(_json(saved.arguments))),
        ("options", escape(_json(saved.options)) if saved.options else ""),
        ("saved", local_time(saved.saved_at)),
    ]
    return [(name, value) for name, value in rows if value]


def _json(document: object) -> str:
    return one_line(json.dumps(document, ensure_ascii=False))


app = typer.Typer(no_args_is_help=True, help="Keep calls under names, and start them by name.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the saved call.", show_default=False)]


@app.command("set")
@server_command()
async def set_call(
    context: Context,
    name: NameArgument,
    tool: calling.ToolArgument,
    arguments: calling.JsonArgument = None,
    arg: calling.PairOption = None,
    **options: Unpack[SavedCallOptions],
) -> ExitCode:
    """Keep a call under a name, in place of an earlier one.

    Example:
      outlast saved set prices outlast/sleeper '{"seconds": 5}' --max-usd 2
    """
    saved = await context.client.saved_calls.save(
        name,
        tool,
        read_arguments(arguments, arg or []),
        **options,
    )
    if context.output.as_json:
        context.output.document(saved.document())
    else:
        context.output.note(f"{escape(saved.name)} is a call of {escape(saved.tool)}.")
        context.output.command(f"start  {context.options.command(f'saved run {name}')}")
    return ExitCode.OK


@app.command()
@server_command()
async def ls(
    context: Context,
) -> ExitCode:
    """List your saved calls."""
    saved = await context.client.saved_calls.list()
    if context.output.as_json:
        context.output.document({"saved_calls": [one.document() for one in saved]})
    elif not saved:
        context.output.note("No saved calls yet.")
    else:
        context.output.table(SAVED_COLUMNS, [saved_row(one) for one in saved])
    return ExitCode.OK


@app.command()
@server_command()
async def show(
    context: Context,
    name: NameArgument,
) -> ExitCode:
    """Show a saved call."""
    saved = await context.client.saved_calls.get(name)
    if context.output.as_json:
        context.output.document(saved.document())
    else:
        context.output.sheet(saved_sheet(saved))
    return ExitCode.OK


@app.command()
@server_command()
async def run(
    context: Context,
    name: NameArgument,
    arguments: calling.JsonArgument = None,
    arg: calling.PairOption = None,
    detach: calling.DetachOption = False,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key and call give the same task.")
    ] = None,
) -> ExitCode:
    """Start a saved call, with other arguments where some are given, and follow it as `outlast call` does."""
    given = read_arguments(arguments, arg or [])
    task = await context.client.saved_calls.start(name, given, idempotency_key=idempotency_key)
    if detach:
        return calling.leave(context, task)
    return calling.show_answer(context, await calling.see_through(context, task))


@app.command()
@server_command(as_json=False)
async def rm(
    context: Context,
    name: NameArgument,
) -> ExitCode:
    """Delete a saved call."""
    await context.client.saved_calls.delete(name)
    context.output.note(f"{escape(name)} is deleted. Schedules of it have nothing to start from now on.")
    return ExitCode.OK
