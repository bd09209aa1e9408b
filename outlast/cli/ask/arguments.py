"""A tool's arguments from the command line: JSON, a file, standard input, or one by one."""

import json
import sys
from pathlib import Path
from typing import Any, cast

from outlast.activities.json_numbers import number_flaws
from outlast.cli.errors import BadInput

_EXAMPLE = """An example: outlast call outlast--sleeper '{"seconds": 5}'"""


def read_arguments(source: str | None, pairs: list[str]) -> dict[str, Any]:
    """The arguments from JSON, `@file` or `-` (standard input), overridden by each `name=value` of `pairs`.

    Raises `BadInput` with the place of the mistake.
    """
    arguments = _parse_object(*_read_source(source)) if source is not None else {}
    for pair in pairs:
        _put(arguments, pair)
    return arguments


def _read_source(source: str) -> tuple[str, str]:
    """The JSON text and its origin, for errors."""
    if source == "-":
        return sys.stdin.read(), "standard input"
    if not source.startswith("@"):
        return source, "the arguments"
    path = Path(source[1:])
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInput(f"Cannot read {path}: {reason}.") from error


def _parse_object(text: str, origin: str) -> dict[str, Any]:
    try:
        if flaws := number_flaws(text.encode()):
            raise BadInput(f"{flaws[0].path or 'The arguments'}: {flaws[0].message}")
        value: Any = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadInput(f"Not valid JSON in {origin}, {place}: {error.msg}.", hint=_EXAMPLE) from error
    except RecursionError as error:
        raise BadInput(f"The JSON in {origin} is nested too deeply.") from error
    if not isinstance(value, dict):
        raise BadInput(f"The arguments must be a JSON object; {origin} holds {_kind(value)}.", hint=_EXAMPLE)
    return cast("dict[str, Any]", value)


def _put(arguments: dict[str, Any], pair: str) -> None:
    """Set one `name=value`. A dotted name sets a field of a nested object."""
    name, separator, value = pair.partition("=")
    *path, last = name.split(".")
    if not separator or not all([*path, last]):
        raise BadInput(f"--arg takes name=value, not {pair!r}.", hint="An example: --arg seconds=5")
    target = arguments
    for part in path:
        inner: Any = target.setdefault(part, {})
        if not isinstance(inner, dict):
            raise BadInput(f"--arg {name}: {part!r} is {_kind(inner)}, not an object.")
        target = cast("dict[str, Any]", inner)
    target[last] = _value(value)


def _value(text: str) -> Any:
    """The value of valid JSON, else the text itself: `5`, `true`, `["a"]`, `hello`."""
    try:
        return text if number_flaws(text.encode()) else json.loads(text)
    except ValueError:
        return text


def _kind(value: Any) -> str:
    names: dict[Any, str] = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
