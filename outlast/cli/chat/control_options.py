"""The options of `outlast chat` that say how the model answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli.json_files import json_object

if TYPE_CHECKING:
    from pydantic import JsonValue

_PANEL = "How the model answers"

TemperatureOption = Annotated[
    float | None, typer.Option(min=0, max=2, help="Randomness; 0 is the least.", rich_help_panel=_PANEL)
]
EffortOption = Annotated[
    str | None, typer.Option(help="How much the model reasons: none, minimal, low, … max.", rich_help_panel=_PANEL)
]
ThinkingTokensOption = Annotated[
    int | None, typer.Option(min=1_024, help="Tokens that it may think with.", rich_help_panel=_PANEL)
]
MaxOutputTokensOption = Annotated[
    int | None, typer.Option(min=1, help="Tokens of one call of the model at most.", rich_help_panel=_PANEL)
]
StopOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Text at which it stops; may be repeated.", rich_help_panel=_PANEL),
]
SeedOption = Annotated[
    int | None, typer.Option(help="Equal seeds give equal answers, where a provider can.", rich_help_panel=_PANEL)
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="JSON Schema of an object that its answer is.", rich_help_panel=_PANEL, dir_okay=False
    ),
]


def given_controls(*, schema: Path | None, stop: list[str] | None, **others: "JsonValue") -> "dict[str, JsonValue]":
    """The controls that are set, as sessions and messages take them. Raises `BadParameter` for a bad schema file."""
    read = json_object(schema, "the JSON Schema of an object") if schema is not None else None
    controls: dict[str, JsonValue] = {**others, "stop": [*stop] if stop else None, "output_schema": read}
    return {name: value for name, value in controls.items() if value is not None}
