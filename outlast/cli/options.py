"""Arguments and options that several commands have, declared once, how they are read, and the errors of commands."""

import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from functools import partial, update_wrapper
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, cast, get_args

import typer
from pydantic import JsonValue
from typer.models import OptionInfo

from outlast.activities.bounds import MAX_SECONDS, MAX_USD, USD_DECIMALS, is_usd
from outlast.activities.json_numbers import number_flaws
from outlast.contracts.options import Option, if_set
from outlast.paths import default_data_dir


class ExitCode(IntEnum):
    """Exit codes, which scripts can rely on. `outlast --help` lists them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNAUTHENTICATED = 4
    SERVER_ERROR = 5
    NOT_DONE = 6
    INTERRUPTED = 130


class CliError(Exception):
    """A command cannot continue: `message` is the error, `hint` the remedy, `lines` the details."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: ExitCode,
        hint: str | None = None,
        lines: tuple[str, ...] = (),
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.hint = hint
        self.lines = lines
        self.problem = problem

    def document(self) -> dict[str, Any]:
        """Return what `--json` prints, with the server's problem document if there is one."""
        error: dict[str, Any] = {"message": self.message, "exit_code": int(self.exit_code)}
        error |= {"hint": self.hint} if self.hint else {}
        error |= {"problem": dict(self.problem)} if self.problem else {}
        return {"error": error}


class BadInput(CliError):
    """The input of the user is not valid; nothing was sent."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, exit_code=ExitCode.USAGE, hint=hint)


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


def read_result(source: str) -> Any:
    """Return the value in JSON, `@file` or `-`. Raises `BadInput` with the position of the error."""
    text, origin = _read_source(source)
    return _parse_value(text, "the result" if text == source else origin, hint="""An example: '{"invoice": 4711}'""")


def _parse_value(text: str, origin: str, *, hint: str) -> Any:
    try:
        if flaws := number_flaws(text.encode()):
            raise BadInput(f"{flaws[0].path or 'The arguments'}: {flaws[0].message}")
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadInput(f"Invalid JSON in {origin}, {place}: {error.msg}.", hint=hint) from error
    except RecursionError as error:
        raise BadInput(f"The JSON in {origin} is nested too deeply.") from error


def _parse_object(text: str, origin: str) -> dict[str, Any]:
    value = _parse_value(text, origin, hint=_EXAMPLE)
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


def parse_moment(text: str) -> datetime:
    """Parse a time in ISO 8601; without a time zone, it is local time. Raises `typer.BadParameter`."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        example = "2026-03-29, 2026-03-29T02:30 or 2026-03-29T02:30+01:00"
        raise typer.BadParameter(f"{text!r} is not a time; write {example}.") from None


def parse_past(text: str) -> datetime:
    """Parse a duration before now, such as `1h`, or a time in ISO 8601. Raises `typer.BadParameter`."""
    if _AGO.fullmatch(text.strip()):
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    return parse_moment(text)


_AGO = re.compile(r"[0-9.]+\s*[a-z]+", re.IGNORECASE)
_PAST, _PAST_FORM = "WHEN", " 1h, 7d, or a time: 2026-11-28T18:00."
_SHORT = {"concurrency": "-c", "mapping": "-m"}
_PARSERS: Mapping[str | None, Callable[[str], Any]] = {"TIME": parse_duration, "USD": parse_usd, _PAST: parse_past}
_WHOLE_RULES = frozenset({"failures", "seconds", "completed", "rows"})
_RULES = (*sorted(_WHOLE_RULES), "failure_share", "categories", "under_way")


def flags_of(kind: type) -> dict[str, Parameter]:
    """Return the parameters of a command that takes the options of `kind`, a `TypedDict`, by name.

    A field is annotated with an `Option`, or with a flag of Typer that is used unchanged.
    """
    found: dict[str, Parameter] = {}
    for name, annotation in kind.__annotations__.items():
        type_, *facts = get_args(annotation)
        for fact in facts:
            if isinstance(fact, Option) and fact.flag is not None:
                found[name] = _parameter(name, type_, fact)
            elif isinstance(fact, OptionInfo):
                found[name] = flag(name, annotation, default=False if type_ is bool else None)
    return found


def flag(name: str, annotation: object, default: object = None) -> Parameter:
    """Return the parameter of a command that Typer makes a flag of."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def read_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, by name, in the form of the client. Raises `BadInput`."""
    found = {name: value for name, value in given.items() if value is not None and value != []}
    return {
        name: value if name not in _READERS or isinstance(value, datetime) else _READERS[name](value)
        for name, value in found.items()
    }


def _parameter(name: str, annotation: Any, option: Option) -> Parameter:
    long = option.flag or ""
    if name in _READERS and option.metavar != _PAST:
        type_: Any = list[str]
    else:
        (type_,) = [part for part in get_args(annotation) or (annotation,) if part is not NoneType]
    if type_ is bool and option.encode is not if_set:
        long = f"{long}/--no-{long.removeprefix('--')}"
    facts: dict[str, Any] = {"metavar": option.metavar, "rich_help_panel": option.panel, "show_default": False}
    if type_ in (float, datetime) and option.metavar in _PARSERS:
        facts["parser"] = _PARSERS[option.metavar]
    elif type_ in (int, float):
        facts |= {"min": option.min, "max": option.max}
    names = (long, _SHORT[name]) if name in _SHORT else (long,)
    form = _PAST_FORM if option.metavar == _PAST else _FORMS.get(name, "")
    declared = typer.Option(*names, help=f"{option.help}{form}", **facts)
    return flag(name, Annotated[type_ | None, declared])


def _rule(name: str, text: str) -> Any:
    if name not in _RULES:
        raise BadInput(f"--stop has no rule {name!r}.", hint=f"The rules: {', '.join(_RULES)}.")
    try:
        if name in _WHOLE_RULES:
            return int(text)
        if name == "failure_share":
            return float(text)
    except ValueError:
        raise BadInput(f"--stop {name}={text}: {json.dumps(text)} is not a number.") from None
    return [part.strip() for part in text.split(",")] if name == "categories" else text


def _retries(texts: Sequence[str]) -> dict[str, int]:
    found = _pairs(texts, "--retry", "rate_limit=3")
    wrong = next((text for text in found.values() if not text.isdecimal()), None)
    if wrong is not None:
        raise BadInput(f"--retry takes CATEGORY=NUMBER, not {wrong!r}.", hint="An example: --retry rate_limit=3")
    return {category: int(text) for category, text in found.items()}


def _pairs(texts: Sequence[str], option: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise BadInput(f"{option} takes NAME=VALUE, not {text!r}.", hint=f"An example: {option} {example}")
        found[name] = value
    return found


_READERS: Mapping[str, Callable[[Sequence[str]], Any]] = {
    "until": until_of,
    "stop": lambda texts: {name: _rule(name, text) for name, text in _pairs(texts, "--stop", "failures=10").items()},
    "retries": _retries,
    "mapping": lambda texts: _pairs(texts, "--map", "startUrls.0.url=page"),
    "webhooks": lambda texts: [read_arguments(text, []) for text in texts],
    "categories": list,
    "status": list,
}
"""Repeatable options, and how their values become one. Each raises `BadInput`."""
_FORMS = {
    "until": " Repeatable: rows=100, usd=0.5, expression='JMESPath over a row', matches=10.",
    "stop": " Repeatable: failures=10, failure_share=0.2, seconds=600, completed=100, rows=500, "
    "categories=timeout,payment; under_way=cancel cancels the rest.",
    "retries": " Repeatable: rate_limit=3.",
    "mapping": " Repeatable.",
    "webhooks": " Repeatable: a JSON object, or @FILE.",
    "categories": " Repeatable.",
    "status": " Repeatable.",
    "deadline_seconds": " 90s, 10m, 2h.",
}
"""The form of values on the command line, added to the help of the option."""


R = TypeVar("R")
_of_server = partial(typer.Option, rich_help_panel="Server")

UrlOption = Annotated[
    str | None,
    _of_server(
        "--url",
        envvar="OUTLAST_URL",
        show_default="the stack that runs on the data directory",
        help="Address of the API.",
    ),
]
TokenOption = Annotated[
    str | None,
    _of_server(
        "--token",
        envvar="OUTLAST_TOKEN",
        help="API key of the server, or your Apify token. Safer in the environment: "
        "other users of this machine can read a command line.",
    ),
]
DataDirOption = Annotated[
    Path, _of_server("--data-dir", envvar="OUTLAST_DATA_DIR", help="Directory with the state of the embedded stack.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
CsvSafeOption = Annotated[
    bool,
    typer.Option(
        "--csv-safe/--no-csv-safe",
        help="In CSV, precede text that a spreadsheet would evaluate (it begins with = + - @) with an apostrophe.",
    ),
]
DetachOption = Annotated[bool, typer.Option("--detach", "-d", help="Print the id and exit; do not wait.")]

DEFAULT_DATA_DIR = default_data_dir()


def time_option(help_text: str, *names: str, **settings: Any) -> Any:
    """Return an option that takes a duration, such as `90s`, and gives seconds."""
    return typer.Option(*names, parser=parse_duration, metavar="TIME", help=help_text, **settings)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of every command that connects to a server."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    data_dir: Path = DEFAULT_DATA_DIR
    as_json: bool = False

    def command(self, rest: str) -> str:
        """Return `outlast …` as it reaches the same server from the same shell."""
        url = f" --url {self.url}" if self.url and self.url != os.environ.get("OUTLAST_URL") else ""
        known = self.url or self.data_dir in (DEFAULT_DATA_DIR, Path(os.environ.get("OUTLAST_DATA_DIR", "")))
        return f"outlast {rest}{url}" + ("" if known else f" --data-dir {shlex.quote(str(self.data_dir))}")

    def commands(self, **named: str) -> tuple[str, ...]:
        """Return lines such as `watch  outlast tasks watch ID`; underscores in names become spaces."""
        width = max(map(len, named), default=0)
        return tuple(f"{name.replace('_', ' '):<{width}}  {self.command(rest)}" for name, rest in named.items())


def expanded(command: Callable[..., R]) -> Callable[..., R]:
    """Decorator: replace `**options: Unpack[KIND]` of a command by the flags of that kind of options."""

    def with_flags(**given: Any) -> R:
        return command(**given)

    return with_parameters(with_flags, command, parameters_of(command))


def with_parameters(
    command: Callable[..., R], source: Callable[..., object], *parameters: Iterable[inspect.Parameter]
) -> Callable[..., R]:
    """Give `command` the name and the documentation of `source`, and these parameters."""
    update_wrapper(command, source)
    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for group in parameters for one in group]
    # Typer reads both.
    command.__signature__ = inspect.Signature(named)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {one.name: one.annotation for one in named}
    return command


def parameters_of(command: Callable[..., object]) -> list[inspect.Parameter]:
    """Return the parameters of a command. `**options: Unpack[KIND]` becomes the flags of that kind of options.

    If two have the same flag, the first one is taken: the command's own come first.
    """
    *own, last = inspect.signature(command, eval_str=True).parameters.values()
    if last.kind != inspect.Parameter.VAR_KEYWORD:
        return [*own, last]
    taken = {flag for one in own for flag in _flags(one)}
    (kind,) = get_args(last.annotation)
    for one in flags_of(kind).values():
        if taken.isdisjoint(_flags(one)):
            own.append(one)
            taken.update(_flags(one))
    return own


def _flags(parameter: inspect.Parameter) -> list[str]:
    infos = [one for one in get_args(parameter.annotation) if isinstance(one, OptionInfo)]
    # In an annotation, Typer keeps the first flag in the place of the default.
    return [flag for info in infos for flag in (info.default, *(info.param_decls or ())) if isinstance(flag, str)]


SHARED = {
    "as_json": flag("as_json", JsonOption, default=False),
    "url": flag("url", UrlOption),
    "token": flag("token", TokenOption),
    "data_dir": flag("data_dir", DataDirOption, default=DEFAULT_DATA_DIR),
}
SHARED_NAMES = {name: one.annotation is not JsonOption for one in SHARED.values() for name in _flags(one)}
"""Whether each flag takes a value, by its name."""
