"""Options of every command that talks to a server, declared once."""

import functools
import inspect
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.models import OptionInfo

from outlast.cli.option_flags import flags_of
from outlast.paths import default_data_dir

R = TypeVar("R")
_UNPACKED = inspect.Parameter.VAR_KEYWORD

_SERVER = "Server"

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="OUTLAST_URL",
        show_default="the stack that runs on the data directory",
        help="Address of the API.",
        rich_help_panel=_SERVER,
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="OUTLAST_TOKEN",
        help="API key of the server, or your Apify token. Better in the environment: "
        "other users of this machine can read a command line.",
        rich_help_panel=_SERVER,
    ),
]
DataDirOption = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        envvar="OUTLAST_DATA_DIR",
        help="Where the embedded stack keeps its state.",
        rich_help_panel=_SERVER,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

DEFAULT_DATA_DIR = default_data_dir()
CsvSafeOption = Annotated[
    bool,
    typer.Option(
        "--csv-safe/--no-csv-safe",
        help="In CSV, put an apostrophe before text that a spreadsheet would compute (it begins with = + - @).",
    ),
]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of every command that talks to a server."""

    url: str | None = None
    token: str | None = None
    data_dir: Path = DEFAULT_DATA_DIR
    as_json: bool = False

    def command(self, rest: str) -> str:
        """`outlast …` as it reaches the same server from the same shell."""
        url = f" --url {self.url}" if self.url and self.url != os.environ.get("OUTLAST_URL") else ""
        known = self.url or self.data_dir in (DEFAULT_DATA_DIR, Path(os.environ.get("OUTLAST_DATA_DIR", "")))
        return f"outlast {rest}{url}" + ("" if known else f" --data-dir {shlex.quote(str(self.data_dir))}")

    def __repr__(self) -> str:
        """Without the token."""
        return f"Options(url={self.url!r}, data_dir={self.data_dir!r}, as_json={self.as_json})"


def server_options(*, as_json: bool | None = None) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorator: replace the first parameter of a command, its `Options`, by `--json --url --token --data-dir`.

    The command gets its other parameters by name. Its `**options: Unpack[KIND]` becomes the flags of that kind of
    options; a parameter of its own with the same flag takes precedence. `as_json` is the fixed form of the output of a
    command without `--json`.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        shared = {name: one for name, one in _SHARED.items() if name != "as_json" or as_json is None}

        @functools.wraps(command)
        def with_flags(**given: Any) -> R:
            fixed: dict[str, Any] = {} if as_json is None else {"as_json": as_json}
            return command(Options(**fixed, **{name: given.pop(name) for name in shared}), **given)

        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one.kind != _UNPACKED]
        parameters = [*named, *declared_flags(command), *shared.values()]
        # Typer reads both.
        with_flags.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
        with_flags.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_flags

    return decorate


def declared_flags(command: Callable[..., object]) -> list[inspect.Parameter]:
    """The flags of the options that `command` takes as `**options: Unpack[KIND]`, without those it declares itself."""
    *own, last = inspect.signature(command, eval_str=True).parameters.values()
    if last.kind != _UNPACKED:
        return []
    taken = {flag for one in own for flag in _flags(one)}
    (kind,) = get_args(last.annotation)
    return [one for one in flags_of(kind).values() if taken.isdisjoint(_flags(one))]


def _flags(parameter: inspect.Parameter) -> list[str]:
    infos = [one for one in get_args(parameter.annotation) if isinstance(one, OptionInfo)]
    # In an annotation, Typer keeps the first flag in the place of the default.
    return [flag for info in infos for flag in (info.default, *(info.param_decls or ())) if isinstance(flag, str)]


def _shared(name: str, default: object, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_SHARED = {
    "as_json": _shared("as_json", False, JsonOption),
    "url": _shared("url", None, UrlOption),
    "token": _shared("token", None, TokenOption),
    "data_dir": _shared("data_dir", DEFAULT_DATA_DIR, DataDirOption),
}
