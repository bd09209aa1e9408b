"""`outlast tools`: what can be called."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer
from rich.markup import escape

from outlast.cli.connection import complete_tool
from outlast.cli.errors import ExitCode
from outlast.cli.runner import Context, server_command
from outlast.cli.show.output import Output
from outlast.cli.show.tables import Column, Entries
from outlast.cli.show.wording import one_line, printable
from outlast.client import Tool

_EXAMPLES: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class ArgumentWords:
    """One argument as a person reads it."""

    name: str
    type: str
    is_required: bool
    explanation: str


def describe_arguments(schema: Mapping[str, Any]) -> list[ArgumentWords]:
    """Every argument of an input schema, in its order."""
    required = _list(schema.get("required"))
    properties = _object(schema.get("properties")).items()
    return [
        ArgumentWords(name, type_words(_object(part)), name in required, _explanation(_object(part)))
        for name, part in properties
    ]


def example_arguments(schema: Mapping[str, Any]) -> str:
    """The least that has to be given, as JSON, with the schema's own examples where it has some."""
    properties = _object(schema.get("properties"))
    example = {str(name): _example(_object(properties.get(str(name)))) for name in _list(schema.get("required"))}
    return json.dumps(example, ensure_ascii=False)


def type_words(schema: Mapping[str, Any]) -> str:
    """`string`, `number | string`, `any`; null is not mentioned."""
    if "$ref" in schema:
        return "object"
    choices = [type_words(_object(choice)) for choice in _list(schema.get("anyOf"))]
    kind = schema.get("type")
    kinds = choices or [str(part) for part in _list(kind)] or ([kind] if isinstance(kind, str) else [])
    return " | ".join(dict.fromkeys(kind for kind in kinds if kind != "null")) or ("null" if kinds else "any")


def _explanation(schema: Mapping[str, Any]) -> str:
    text = one_line(str(schema.get("description") or schema.get("title") or ""))
    choices = _list(schema.get("enum"))
    text += f" One of {', '.join(map(str, choices))}." if choices else ""
    default = schema.get("default")
    text += f" Default {json.dumps(default)}." if default not in (None, "", [], {}) else ""
    return text.strip()


def _example(schema: Mapping[str, Any]) -> Any:
    for key in ("prefill", "default", "example"):
        if schema.get(key) is not None:
            return schema[key]
    return _EXAMPLES.get(type_words(schema), "…")


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


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
@server_command()
async def ls(
    context: Context,
    mode: ModeOption = None,
) -> ExitCode:
    """List the tools."""
    return await list_tools(context, mode)


@app.command()
@server_command()
async def get(
    context: Context,
    name: Annotated[
        str,
        typer.Argument(metavar="TOOL", help="Name of a tool, or any Actor as user/name.", autocompletion=complete_tool),
    ],
    mode: ModeOption = None,
) -> ExitCode:
    """Show what a tool does and which arguments it takes."""
    return await get_tool(context, name, mode)


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
