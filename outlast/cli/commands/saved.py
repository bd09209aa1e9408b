"""`outlast saved`: saved calls, which are a tool and its arguments under a name."""

import json
from collections.abc import Sequence
from typing import Annotated, Unpack

import typer
from rich.markup import escape

from outlast.cli.commands import tasks as calling
from outlast.cli.options import DetachOption, ExitCode, read_arguments
from outlast.cli.runner import Context, server_command
from outlast.cli.show.output import Column, Rows, ago, local_time, one_line
from outlast.client import SavedCall
from outlast.contracts.options import SavedCallOptions

app = typer.Typer(name="saved", no_args_is_help=True, help="Save calls under names, and start them.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the saved call.", show_default=False)]
_COLUMNS = (
    Column("NAME"),
    Column("TOOL", rank=1, least=12),
    Column("ARGUMENTS", rank=2, least=12, most=60),
    Column("NOTE", rank=3, least=8, most=30),
    Column("AGE", rank=4),
)


@server_command(app, "set")
async def set_call(
    context: Context,
    name: NameArgument,
    tool: calling.ToolArgument,
    arguments: calling.JsonArgument = None,
    arg: calling.PairOption = None,
    **options: Unpack[SavedCallOptions],
) -> None:
    """Save a call under a name, and replace an earlier call of this name.

    Example:
      outlast saved set prices outlast/sleeper '{"seconds": 5}' --max-usd 2
    """
    saved = await context.client.saved_calls.save(name, tool, read_arguments(arguments, arg or []), **options)
    context.output.done(saved.document(), f"{escape(saved.name)} is a call of {escape(saved.tool)}.")
    context.suggest(start=f"saved run {name}")


@server_command(app)
async def ls(context: Context) -> None:
    """List your saved calls."""
    found = await context.client.saved_calls.list()
    context.output.listing("saved_calls", found, _COLUMNS, _row, "No saved calls yet.")


@server_command(app)
async def show(context: Context, name: NameArgument) -> None:
    """Show a saved call."""
    context.output.item(await context.client.saved_calls.get(name), _sheet)


@server_command(app)
async def run(
    context: Context,
    name: NameArgument,
    arguments: calling.JsonArgument = None,
    arg: calling.PairOption = None,
    detach: DetachOption = False,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The same key with the same call gives the same task.")
    ] = None,
) -> ExitCode:
    """Start a saved call and follow it as `outlast call` does; given arguments override the saved ones."""
    given = read_arguments(arguments, arg or [])
    task = await context.client.saved_calls.start(name, given, idempotency_key=idempotency_key)
    return await calling.follow(context, task, detach=detach)


@server_command(app, as_json=False)
async def rm(context: Context, name: NameArgument) -> None:
    """Delete a saved call."""
    await context.client.saved_calls.delete(name)
    context.output.note(f"{escape(name)} is deleted. Its schedules can no longer start it.")


def _row(saved: SavedCall) -> Sequence[str]:
    note = "[red]damaged[/]" if saved.damaged else escape(one_line(saved.note))
    return (escape(saved.name), escape(saved.tool), _json(saved.arguments), note, ago(saved.saved_at))


def _sheet(saved: SavedCall) -> Rows:
    return [
        ("name", escape(saved.name)),
        ("note", escape(one_line(saved.note))),
        ("damaged", escape(saved.damaged or "")),
        ("tool", escape(saved.tool)),
        ("mode", escape(saved.mode or "")),
        ("arguments", _json(saved.arguments)),
        ("options", _json(saved.options) if saved.options else ""),
        ("saved", local_time(saved.saved_at)),
    ]


def _json(document: object) -> str:
    return escape(one_line(json.dumps(document, ensure_ascii=False)))
