"""Options that several commands share."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from outlast.paths import default_data_dir

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
