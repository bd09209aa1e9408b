"""`outlast tools`: the tools that can be called."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer
from rich.markup import escape

from outlast.cli.runner import Context, complete_tool, server_command
from outlast.cli.show.output import Column, Entries, Output, one_line, printable
from outlast.client import Tool

_EXAMPLES: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class ArgumentWords:
    """An argument of a tool, described for people."""

    name: str
    type: str
    is_required: bool
    explanation: str


def describe_arguments(schema: Mapping[str, Any]) -> list[ArgumentWords]:
    """Return the arguments of an input schema, in its order."""
    required = _list(schema.get("required"))
    properties = _object(schema.get("properties")).items()
    return [
        ArgumentWords(name, type_words(_object(part)), name in required, _explanation(_object(part)))
        for name, part in properties
    ]


def example_arguments(schema: Mapping[str, Any]) -> str:
    """Return the required arguments as JSON, with the examples of the schema if it has some."""
    properties = _object(schema.get("properties"))
    example = {str(name): _example(_object(properties.get(str(name)))) for name in _list(schema.get("required"))}
    return json.dumps(example, ensure_ascii=False)


def type_words(schema: Mapping[str, Any]) -> str:
    """Return the type: `string`, `number | string`, `any`; null is left out."""
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


app = typer.Typer(
    name="tools", no_args_is_help=True, help="List the tools that can be called, and show their arguments."
)

_COLUMNS = (Column("TOOL", style="bold"), Column("CATEGORY", rank=2, style="dim"), Column("PURPOSE", rank=1, least=24))
_REQUIRED = "[red]*[/]"
ModeOption = Annotated[str | None, typer.Option(help="Show them as this mode does: default or openai.")]


@server_command(app)
async def ls(context: Context, mode: ModeOption = None) -> None:
    """List the tools."""
    found = await context.client.tools(mode=mode)
    if context.output.as_json:
        context.output.document({"tools": [tool.document() for tool in found]})
        return
    found = sorted(found, key=lambda tool: (tool.category, tool.name))
    rows = [(escape(one.name), escape(_groups(one)), escape(_purpose(one))) for one in found]
    context.output.table(_COLUMNS, rows)
    context.output.note()
    context.suggest(its_arguments="tools get TOOL", any_Actor="call USER/NAME")


@server_command(app)
async def get(
    context: Context,
    name: Annotated[
        str,
        typer.Argument(metavar="TOOL", help="Name of a tool, or any Actor as user/name.", autocompletion=complete_tool),
    ],
    mode: ModeOption = None,
) -> None:
    """Show the description and the arguments of a tool."""
    tool, output = await context.client.tool(name, mode=mode), context.output
    if output.as_json:
        output.document(tool.document())
        return
    output.show(f"[bold]{escape(tool.name)}[/]  [dim]{escape(tool.title)}, {escape(_groups(tool))}[/]")
    output.show(f"\n{escape(printable(tool.description))}\n")
    _show_arguments(output, tool)
    output.note()
    context.suggest(call_it=f"call {tool.name} '{example_arguments(tool.input_schema)}'")


def _show_arguments(output: Output, tool: Tool) -> None:
    arguments = describe_arguments(tool.input_schema)
    rows = [
        (
            f"{escape(argument.name)}{_REQUIRED if argument.is_required else ''}",
            f"[cyan]{escape(argument.type)}[/]",
            escape(argument.explanation),
        )
        for argument in arguments
    ]
    output.show(Entries(rows, ("ARGUMENT", "TYPE", "DESCRIPTION")))
    if any(argument.is_required for argument in arguments):
        output.show(f"{_REQUIRED} required")


def _groups(tool: Tool) -> str:
    """Return the selectors of the groups that the tool is in."""
    return ", ".join((tool.category, *(f"tag:{tag}" for tag in tool.tags)))


def _purpose(tool: Tool) -> str:
    """Return the first sentence of the description; for a tool of an Actor, that of the Actor."""
    text = one_line(tool.description)
    if tool.actor:
        text = text.partition(" and returns what it produced. ")[2] or text
    sentence, dot, _ = text.partition(". ")
    return sentence + ("." if dot else "")
