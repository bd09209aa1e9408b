"""Parses arguments and option values of the command line."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, cast

import typer
from pydantic import JsonValue

from outlast.activities.bounds import MAX_SECONDS, MAX_USD, USD_DECIMALS, is_usd
from outlast.activities.json_numbers import number_flaws
from outlast.cli.errors import BadInput


def json_object(file: Path, expected: str) -> dict[str, JsonValue]:
    """Read a JSON object from `file`. Raises `BadParameter` with the file and what is `expected` in it."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} cannot be read ({error}). Expected: {expected}.") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{file} cannot be read (it is not a JSON object). Expected: {expected}.")
    return cast(dict[str, JsonValue], found)


def names_in(text: str | None) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


_WHOLE = frozenset({"rows", "matches"})
_CONDITIONS = ("rows", "expression", "matches", "usd")


def until_of(texts: Sequence[str]) -> dict[str, JsonValue] | None:
    """Return the stop conditions in the form of the API, None if there are none. Raises `BadInput`."""
    found: dict[str, JsonValue] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if name not in _CONDITIONS or not separator or not value:
            raise BadInput(
                f"--until takes rows=, expression=, matches= or usd=, not {text!r}.",
                hint="An example: --until rows=100",
            )
        try:
            found[name] = value if name == "expression" else int(value) if name in _WHOLE else str(float(value))
        except ValueError:
            raise BadInput(f"--until {name}={value}: {value!r} is not a number.") from None
    return found or None


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from `start` to before `end`; None means to the last one."""

    start: int = 0
    end: int | None = None

    @property
    def limit(self) -> int | None:
        """Maximum number of entries."""
        return None if self.end is None else self.end - self.start


def parse_span(text: str, option: str) -> Span:
    """Parse the `FROM:TO` of `option`. Raises `BadInput`."""
    start, colon, end = text.partition(":")
    if not colon or not all(part.isdecimal() or not part for part in (start, end)):
        raise BadInput(f"{option} takes FROM:TO, not {text!r}.", hint=f"For example `{option} 100:200`")
    span = Span(int(start or 0), int(end) if end else None)
    if span.end is not None and span.end <= span.start:
        raise BadInput(f"{option} {text} is empty.", hint="TO is excluded: it must be greater than FROM.")
    return span


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_USD = re.compile(r"\d{0,10}(?:\.\d{1,40})?", re.ASCII)


def parse_duration(text: str) -> float:
    """Return seconds. Raises `typer.BadParameter`."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration; write seconds, or 90s, 10m, 2h, 1d.")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > MAX_SECONDS:
        raise typer.BadParameter(f"{text[:40]!r} is longer than {MAX_SECONDS} seconds.")
    return seconds


def parse_usd(text: str) -> float:
    """Return US dollars. Raises `typer.BadParameter`."""
    written = text.strip()
    try:
        amount = Decimal(written) if _USD.fullmatch(written) else None
    except InvalidOperation:
        amount = None
    if amount is None or not is_usd(amount):
        raise typer.BadParameter(
            f"{text[:40]!r} is not an amount of US dollars; write a decimal number above 0, at most {MAX_USD}, with at "
            f"most {USD_DECIMALS} decimal places."
        )
    return float(amount)


_EXAMPLE = """An example: outlast call outlast--sleeper '{"seconds": 5}'"""


def read_arguments(source: str | None, pairs: list[str]) -> dict[str, Any]:
    """Return the arguments in JSON, `@file` or `-` (standard input), overridden by each `name=value` of `pairs`.

    Raises `BadInput` with the position of the error.
    """
    arguments = _parse_object(*_read_source(source)) if source is not None else {}
    for pair in pairs:
        _put(arguments, pair)
    return arguments


def _read_source(source: str) -> tuple[str, str]:
    """Return the JSON text, and its origin for error messages."""
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
        raise BadInput(f"Invalid JSON in {origin}, {place}: {error.msg}.", hint=_EXAMPLE) from error
    except RecursionError as error:
        raise BadInput(f"The JSON in {origin} is nested too deeply.") from error
    if not isinstance(value, dict):
        where = "" if origin == "the arguments" else f" in {origin}"
        raise BadInput(f"The arguments{where} must be a JSON object, not {_kind(value)}.", hint=_EXAMPLE)
    return cast("dict[str, Any]", value)


def _put(arguments: dict[str, Any], pair: str) -> None:
    """Set one `name=value`; a dotted name sets a field of a nested object."""
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
    """Return the value of valid JSON (`5`, `true`, `["a"]`), otherwise the text itself."""
    try:
        return text if number_flaws(text.encode()) else json.loads(text)
    except ValueError:
        return text


def _kind(value: Any) -> str:
    names: dict[Any, str] = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
