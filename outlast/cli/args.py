"""A tool's arguments from the command line: JSON, a file, standard input, or one by one."""

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
from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.client import Task


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


_WHOLE = frozenset({"rows", "matches"})
_CONDITIONS = ("rows", "expression", "matches", "usd")


def until_of(texts: Sequence[str]) -> dict[str, JsonValue] | None:
    """The conditions as the API takes them; None without any. Raises `BadInput`."""
    found: dict[str, JsonValue] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if name not in _CONDITIONS or not separator or not value:
            raise BadInput(
                f"--until takes rows=, expression=, matches= or usd=, not {text!r}.",
                hint="An example: --until rows=100",
            )
        found[name] = _number(name, value) if name != "expression" else value
    return found or None


def _number(name: str, text: str) -> JsonValue:
    try:
        return int(text) if name in _WHOLE else str(float(text))
    except ValueError:
        raise BadInput(f"--until {name}={text}: that is no number.") from None


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` up to `end`, which is excluded; None means to the last one."""

    start: int
    end: int | None


def parse_span(text: str, option: str) -> Span:
    """Parse the `FROM:TO` of `option`. Raises `BadInput`."""
    start, colon, end = text.partition(":")
    if not colon or not all(part.isdecimal() or not part for part in (start, end)):
        raise BadInput(f"{option} takes FROM:TO, not {text!r}.", hint=f"For example `{option} 100:200`")
    span = Span(int(start or 0), int(end) if end else None)
    if span.end is not None and span.end <= span.start:
        raise BadInput(f"{option} {text} is empty.", hint="TO is the first one that is not included.")
    return span


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_USD = re.compile(r"\d{0,10}(?:\.\d{1,40})?", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds. Raises `typer.BadParameter`."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration; write seconds, or 90s, 10m, 2h, 1d.")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > MAX_SECONDS:
        raise typer.BadParameter(f"{text[:40]!r} is longer than {MAX_SECONDS} seconds.")
    return seconds


def parse_usd(text: str) -> float:
    """US dollars. Raises `typer.BadParameter`."""
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


@dataclass(frozen=True, slots=True)
class Given:
    """The options of `outlast tasks answer`."""

    source: str | None
    pairs: list[str]
    key: str | None
    decision: str | None
    note: str | None
    decline: bool

    @property
    def says_something(self) -> bool:
        """Whether they contain an answer. Raises `BadInput` if not, and there is no terminal to ask on."""
        if self.source is not None or self.pairs or self.decision or self.decline:
            return True
        if not sys.stdin.isatty():
            raise BadInput("There is no answer.", hint="Give --yes, --no, --decline, JSON, or -a name=value.")
        return False

    def answer(self) -> dict[str, Any]:
        """The answer in the form of the API. Raises `BadInput`."""
        if self.decline:
            return {"action": "decline"}
        content = read_arguments(self.source, self.pairs)
        if self.decision:
            content["decision"] = self.decision
        if self.note:
            content["note"] = self.note
        return {"action": "accept", "content": content}


def question_key(task: "Task", given: Given) -> str:
    """The key of the question to answer. Raises `CliError` when none is open, `BadInput` when several are."""
    asked = list(task.input_requests or {})
    if given.key is not None:
        return given.key
    if not asked:
        raise CliError(f"Task {task.id} asks nothing: it is {task.status}.", exit_code=ExitCode.USAGE)
    if len(asked) > 1:
        raise BadInput(f"Task {task.id} asks several things.", hint=f"Name one with --key: {', '.join(asked)}.")
    return asked[0]
