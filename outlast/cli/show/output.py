"""The output of a command: results go to standard output, everything else to standard error."""

import json
import os
import sys
from collections.abc import AsyncIterable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO, TypeVar

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.text import Text

from outlast.activities.contracts import Contract
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.show.tables import Column, Entries, FittingTable
from outlast.cli.show.wording import printable

R = TypeVar("R", bound=Contract)
Rows = Sequence[tuple[str, str]]
_WIDTH_OF_PIPES = 240
"""Nothing is cut for a reader that is not a terminal."""


class Output:
    """Prints for people or, with `--json`, for programs."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr)
        self.interrupted = CliError("Interrupted.", exit_code=ExitCode.INTERRUPTED)
        """The message when Ctrl-C ends the command."""

    @property
    def is_live(self) -> bool:
        """True if standard error is a terminal that can redraw."""
        return self.err.file.isatty() and not self.err.is_dumb_terminal

    def show(self, renderable: RenderableType = "") -> None:
        """Print a result for people."""
        self.out.print(renderable, crop=False)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print a table that fits the terminal, as far as that is possible without cutting an id."""
        self.show(FittingTable(columns, rows))

    def sheet(self, rows: Rows) -> None:
        """Print names and values (Rich markup), without the empty values."""
        self.show(Entries([(f"[dim]{name}[/]" if name else "", value) for name, value in rows if value]))

    def item(self, found: R, rows: Callable[[R], Rows]) -> None:
        """Print one resource: as JSON, or as the names and values that `rows` returns."""
        if self.as_json:
            self.document(found.document())
        else:
            self.sheet(rows(found))

    def listing(
        self, name: str, found: Sequence[R], columns: Sequence[Column], row: Callable[[R], Sequence[str]], none: str
    ) -> None:
        """Print a list of resources: as JSON in the field `name`, or as a table; if it is empty, the note `none`."""
        if self.as_json:
            self.document({name: [one.document() for one in found]})
        elif found:
            self.table(columns, [row(one) for one in found])
        else:
            self.note(none)

    def done(self, document: Any, note: str) -> None:
        """Print the result of a change: `document` as JSON, or `note` on standard error."""
        if self.as_json:
            self.document(document)
        else:
            self.note(note)

    def text(self, text: str) -> None:
        """Print the text of a tool unchanged, but without control characters on a terminal."""
        shown = printable(text) if self.out.file.isatty() else text
        self.out.file.write(f"{shown}\n")
        self.out.file.flush()

    async def pieces(self, pieces: AsyncIterable[bytes]) -> None:
        """Write bytes to standard output as they arrive."""
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()

    def document(self, document: Any) -> None:
        """Print one JSON document: indented on a terminal, one line for a program."""
        indent = 2 if self.out.file.isatty() else None
        self.out.file.write(json.dumps(document, indent=indent, ensure_ascii=False, default=str) + "\n")
        self.out.file.flush()

    def line(self, document: Any) -> None:
        """Print one JSON document on one line."""
        self.out.file.write(json.dumps(document, ensure_ascii=False, default=str) + "\n")
        self.out.file.flush()

    def note(self, renderable: RenderableType = "") -> None:
        """Print what is not the result on standard error, unless `--json` is set."""
        if not self.as_json:
            self.err.print(renderable, crop=False)

    def command(self, line: str) -> None:
        """Print a command on standard error in one piece, so that it can be copied, unless `--json` is set."""
        if not self.as_json:
            self.err.print(f"  {escape(printable(line))}", soft_wrap=True)

    def error(self, error: CliError) -> None:
        """Print an error on standard error; with `--json`, as a document on standard output."""
        if self.as_json:
            self.document(error.document())
            return
        mark = "[yellow]■[/]" if error.exit_code is ExitCode.INTERRUPTED else "[bold red]✗[/]"
        self.err.print(f"{mark} {escape(printable(error.message))}")
        for line in error.lines:
            self.command(line)
        if error.hint:
            self.err.print(f"  [cyan]→[/] {with_commands(error.hint)}")


def with_commands(text: str) -> str:
    """Return a text as Rich markup; `backticks` mark commands."""
    parts = escape(printable(text)).split("`")
    return "".join(f"[bold]{part}[/]" if index % 2 else part for index, part in enumerate(parts))


def _console(file: TextIO) -> Console:
    known_width = file.isatty() or "COLUMNS" in os.environ
    return Console(file=file, highlight=False, emoji=False, width=None if known_width else _WIDTH_OF_PIPES)


class LoggedOutput(Output):
    """Writes notes and errors to standard error as lines of JSON, with the keys of all log lines."""

    def __init__(self, logger: str) -> None:
        super().__init__(as_json=False)
        self._logger = logger

    def note(self, renderable: RenderableType = "") -> None:
        """Log a note."""
        text = Text.from_markup(renderable).plain if isinstance(renderable, str) else str(renderable)
        self._write("info", text)

    def command(self, line: str) -> None:
        """Log a command."""
        self._write("info", line)

    def error(self, error: CliError) -> None:
        """Log an error."""
        self._write("error", " ".join([error.message, *error.lines, *([error.hint] if error.hint else [])]))

    def _write(self, level: str, event: str) -> None:
        timestamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        line = {"event": event, "level": level, "logger": self._logger, "timestamp": timestamp}
        self.err.file.write(json.dumps(line) + "\n")
        self.err.file.flush()
