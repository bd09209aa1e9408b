"""`outlast saved`: a tool and its input under a name."""

from typing import Annotated

import typer
from rich.markup import escape

from outlast.cli.ask.arguments import read_arguments
from outlast.cli.commands import call as calling
from outlast.cli.errors import ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption, Options, TokenOption, UrlOption
from outlast.cli.running import Context, run_action

app = typer.Typer(no_args_is_help=True, help="Keep calls under names, and start them by name.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the saved call.", show_default=False)]
NoteOption = Annotated[str | None, typer.Option(help="What it is for; any text.")]


@app.command("set")
def set_call(
    name: NameArgument,
    tool: calling.ToolArgument,
    arguments: calling.JsonArgument = None,
    arg: calling.PairOption = None,
    mode: calling.ModeOption = None,
    deadline: calling.DeadlineOption = None,
    max_usd: calling.MaxUsdOption = None,
    max_items: calling.MaxItemsOption = None,
    max_run_time: calling.MaxRunTimeOption = None,
    note: NoteOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Keep a call under a name, in place of an earlier one.

    Example:
      outlast saved set prices outlast/sleeper '{"seconds": 5}' --max-usd 2
    """

    async def action(context: Context) -> ExitCode:
        saved = await context.client.saved_calls.save(
            name,
            tool,
            read_arguments(arguments, arg or []),
            note=note,
            mode=mode,
            deadline_seconds=deadline,
            max_usd=max_usd,
            max_items=max_items,
            max_run_seconds=max_run_time,
        )
        if context.output.as_json:
            context.output.document(saved.document())
        else:
            context.output.note(f"{escape(saved.name)} is a call of {escape(saved.tool)}.")
            context.output.command(f"start  {context.options.command(f'saved run {name}')}")
        return ExitCode.OK

    run_action(Options(url, token, data_dir, as_json), action)


@app.command()
def ls(
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """List your saved calls."""

    async def action(context: Context) -> ExitCode:
        from outlast.cli.saved_calls.saved_call_display import SAVED_COLUMNS, saved_row  # noqa: PLC0415 (httpx)

        saved = await context.client.saved_calls.list()
        if context.output.as_json:
            context.output.document({"saved_calls": [one.document() for one in saved]})
        elif not saved:
            context.output.note("No saved calls yet.")
        else:
            context.output.table(SAVED_COLUMNS, [saved_row(one) for one in saved])
        return ExitCode.OK

    run_action(Options(url, token, data_dir, as_json), action)


@app.command()
def show(
    name: NameArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Show a saved call."""

    async def action(context: Context) -> ExitCode:
        from outlast.cli.saved_calls.saved_call_display import saved_sheet  # noqa: PLC0415 (httpx)

        saved = await context.client.saved_calls.get(name)
        if context.output.as_json:
            context.output.document(saved.document())
        else:
            context.output.sheet(saved_sheet(saved))
        return ExitCode.OK

    run_action(Options(url, token, data_dir, as_json), action)


@app.command()
def run(
    name: NameArgument,
    arguments: calling.JsonArgument = None,
    arg: calling.PairOption = None,
    detach: calling.DetachOption = False,
    idempotency_key: calling.KeyOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Start a saved call, with other arguments where some are given, and follow it as `outlast call` does."""

    async def action(context: Context) -> ExitCode:
        given = read_arguments(arguments, arg or [])
        task = await context.client.saved_calls.start(name, given, idempotency_key=idempotency_key)
        if detach:
            return calling.leave(context, task)
        return calling.show_answer(context, await calling.see_through(context, task))

    run_action(Options(url, token, data_dir, as_json), action)


@app.command()
def rm(
    name: NameArgument,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Delete a saved call."""

    async def action(context: Context) -> ExitCode:
        await context.client.saved_calls.delete(name)
        context.output.note(f"{escape(name)} is deleted. Schedules of it have nothing to start from now on.")
        return ExitCode.OK

    run_action(Options(url, token, data_dir), action)
