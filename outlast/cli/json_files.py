"""Files that hold one JSON object, as arguments and options of commands."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

if TYPE_CHECKING:
    from pydantic import JsonValue


def json_object(file: Path, takes: str) -> "dict[str, JsonValue]":
    """The object in `file`. Raises `BadParameter`, which names the file and says what it `takes`."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise _unreadable(file, str(error), takes) from error
    if not isinstance(found, dict):
        raise _unreadable(file, "it is no JSON object", takes)
    return cast("dict[str, JsonValue]", found)


def _unreadable(file: Path, reason: str, takes: str) -> typer.BadParameter:
    return typer.BadParameter(f"{file} cannot be read ({reason}). It takes {takes}.")
