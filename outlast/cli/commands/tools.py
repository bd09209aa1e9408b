"""`outlast tools`: what can be called."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.completion import complete_tool
from outlast.cli.errors import ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption, Options, TokenOption, UrlOption
from outlast.cli.running import Context, run_action
from outlast.cli.show.entries import Entries
from outlast.cli.show.output import Output
from outlast.cli.show.schema_words import describe_arguments, example_arguments
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import one_line, printable

if TYPE_CHECKING:
    from outlast.client import Tool

app = typer.Typer(no_args_is_help=True, help="List the tools that can be called, and show their arguments.")

_COLUMNS = (
    Column("TOOL", style="bold"),
    Column("CATEGORY", rank=2, style="dim"),
    Column("WHAT IT DOES", rank=1, least=24),
)

_ARGUMENT_TITLES = ("ARGUMENT", "TYPE", "WHAT IT IS")
_REQUIRED = "[red]*[/]"

ModeOption = Annotated[str | None, typer.Option(help="As which mode presents them: default or openai.")]


@app.command()
def ls(
    mode: ModeOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """List the tools."""
    run_action(Options(url, token, data_dir, as_json), lambda context: list_tools(context, mode))


@app.command()
def get(
    name: Annotated[
        str,
        typer.Argument(metavar="TOOL", help="Name of a tool, or any Actor as user/name.", autocompletion=complete_tool),
    ],
    mode: ModeOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Show what a tool does and which arguments it takes."""
    run_action(Options(url, token, data_dir, as_json), lambda context: get_tool(context, name, mode))


async def list_tools(context: Context, mode: str | None) -> ExitCode:
    """Print the tools by category."""
    found = await context.client.tools(mode=mode)
    output = context.output
    if output.as_json:
        output.document({"tools": [tool.document() for tool in found]})
        return ExitCode.OK
    tools = sorted(found, key=lambda tool: (tool.category, tool.name))
    output.table(_COLUMNS, [(escape(tool.name), escape(tool.category), escape(_purpose(tool))) for tool in tools])
    command = context.options.command
    output.note()
    output.command(f"its arguments  {command('tools get TOOL')}")
    output.command(f"any Actor      {command('call USER/NAME')}")
    return ExitCode.OK


async def get_tool(context: Context, name: str, mode: str | None) -> ExitCode:
    """Print one tool."""
    tool = await context.client.tool(name, mode=mode)
    output = context.output
    if output.as_json:
        output.document(tool.document())
        return ExitCode.OK
    output.show(f"[bold]{escape(tool.name)}[/]  [dim]{escape(tool.title)}, {escape(tool.category)}[/]")
    output.show(f"\n{escape(printable(tool.description))}\n")
    _show_arguments(output, tool)
    call = f"call {tool.name} '{example_arguments(tool.input_schema)}'"
    output.note()
    output.command(f"call it  {context.options.command(call)}")
    return ExitCode.OK


def _show_arguments(output: Output, tool: "Tool") -> None:
    arguments = describe_arguments(tool.input_schema)
    rows: list[tuple[str, ...]] = []
    for argument in arguments:
        name = f"{escape(argument.name)}{_REQUIRED if argument.is_required else ''}"
        rows.append((name, f"[cyan]{escape(argument.type)}[/]", escape(argument.explanation)))
    output.show(Entries(rows, _ARGUMENT_TITLES))
    if any(argument.is_required for argument in arguments):
        output.show(f"{_REQUIRED} must be given")


def _purpose(tool: "Tool") -> str:
    """The first sentence that says what the tool does; for an Actor's tool, what the Actor does."""
    text = one_line(tool.description)
    if tool.actor:
        text = text.partition(" and returns what it produced. ")[2] or text
    sentence, dot, _ = text.partition(". ")
    return sentence + ("." if dot else "")
