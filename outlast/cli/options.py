"""Options that several commands have, declared once."""

import inspect
import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.models import OptionInfo

from outlast.cli.args import parse_duration
from outlast.cli.option_flags import flag, flags_of
from outlast.paths import default_data_dir

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
