"""The output of a command: results go to standard output, everything else to standard error; tables and wording."""

import json
import os
import re
import sys
from collections.abc import AsyncIterable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outlast.activities.contracts import Contract
from outlast.cli.options import CliError, ExitCode
from outlast.wording import duration

_MARKS = {
    ("✓", "green"): ("completed", "succeeded"),
    ("●", "blue"): ("working", "running", "ready"),
    ("○", "blue"): ("queued",),
    ("?", "magenta"): ("input_required",),
    ("■", "yellow"): ("cancelled", "stopped", "aborted"),
    ("✗", "red"): ("failed", "timed-out"),
}
STATUS_MARKS = {status: mark for mark, statuses in _MARKS.items() for status in statuses}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return `text` without control characters: output of a tool must not control the terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str | None) -> str:
    """Return `text` in one line; None is empty."""
    return " ".join(printable(text).split()) if text else ""


def styled_status(status: str) -> str:
    """Return the status of a task or run with its mark, as Rich markup."""
    mark, style = STATUS_MARKS.get(status.lower(), ("●", "default"))
    return f"[{style}]{mark} {status}[/]"


def clock(seconds: float) -> str:
    """Format a running clock: `0:07`, `12:30`, `1:02:03`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Format an age in its largest unit: `just now`, `12 min ago`, `3 d ago`."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if seconds < 10:
        return "just now"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


def ahead(moment: datetime, now: datetime | None = None) -> str:
    """Format the time until a moment: `in 3 h 07 min`, or `over`."""
    seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    return f"in {duration(seconds)}" if seconds > 0 else "over"


def local_time(moment: datetime) -> str:
    """Format a time in the time zone of this machine."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def size(size_bytes: float) -> str:
    """Format a size: `512 B`, `3.4 MB`, `12 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" or size_bytes >= 10 else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


_GAP = 2
_NARROW = 60
_LEAST_VALUE_WIDTH = 30


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows of Rich markup: one or more names, and a value that is wrapped between words and never cut.

    Print it with `crop=False`. `titles` are shown if names and values are side by side.
    """

    rows: Sequence[tuple[str, ...]]
    titles: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it for Rich; into a pipe, every value on one line."""
        rows = [[console.render_str(cell, highlight=False) for cell in row] for row in self.rows]
        above = [[Text(title, style="bold") for title in self.titles]] if self.titles else []
        *name_widths, _ = [max(cell.cell_len for cell in cells) for cells in zip(*above, *rows, strict=True)] or [0]
        indent = sum(name_widths) + _GAP * len(name_widths)
        width = options.max_width if console.is_terminal else None
        if width is not None and (width < _NARROW or width - indent < _LEAST_VALUE_WIDTH):
            lines = (line for row in rows for line in _below(row, width - _GAP))
        else:
            room = None if width is None else width - indent
            lines = (line for row in (*above, *rows) for line in _beside(row, name_widths, room))
        for line in lines:
            line.no_wrap, line.overflow = True, "ignore"
            yield line


def _wrapped(value: Text, width: int | None) -> list[Text]:
    """Return the lines of `value`. Rich would cut words that are longer than a line; here they stay whole."""
    lines: list[Text] = []
    for paragraph in value.split("\n", allow_blank=True):
        lines += paragraph.divide(_line_starts(paragraph.plain, width)) if width else [paragraph]
    for line in lines:
        line.rstrip()
    return lines or [Text()]


def _line_starts(text: str, width: int) -> list[int]:
    starts: list[int] = []
    begun = 0
    for word in re.finditer(r"\S+", text):
        if cell_len(text[begun : word.end()]) > width and text[begun : word.start()].strip():
            begun = word.start()
            starts.append(begun)
    return starts


def _beside(row: Sequence[Text], name_widths: Sequence[int], room: int | None) -> Iterator[Text]:
    *names, value = row
    for number, line in enumerate(_wrapped(value, room)):
        beginning = Text()
        for name, width in zip(names, name_widths, strict=True):
            shown = name if number == 0 else Text()
            beginning = beginning + shown + Text(" " * (width - shown.cell_len + _GAP))
        yield beginning + line


def _below(row: Sequence[Text], width: int) -> Iterator[Text]:
    *names, value = row
    if any(name.plain for name in names):
        yield Text(" " * _GAP).join(name for name in names if name.plain)
    for line in _wrapped(value, width):
        yield Text(" " * _GAP) + line


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, whose cells are Rich markup."""

    title: str
    rank: int = 0
    """The column with the highest rank is left out first, one with rank 0 never."""
    least: int | None = None
    """Minimum width; None shows every cell whole, so that it can be copied."""
    most: int | None = None
    """Maximum width."""
    style: str = ""
    justify: Literal["left", "right"] = "left"


@dataclass(frozen=True, slots=True)
class FittingTable:
    """A table that is wider than the terminal only if cells that must not be cut are. Print it with `crop=False`."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it for Rich."""
        width = options.max_width
        natural = [_natural(column, [row[index] for row in self.rows]) for index, column in enumerate(self.columns)]
        shown = _shown(self.columns, natural, width)
        widths = _widths(self.columns, natural, shown, width)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
        table.show_header = any(column.title for column in self.columns)
        for index in shown:
            column = self.columns[index]
            table.add_column(
                column.title,
                no_wrap=True,
                overflow="ellipsis",
                width=widths[index],
                style=column.style or None,
                justify=column.justify,
            )
        for row in self.rows:
            table.add_row(*(row[index] for index in shown))
        total = sum(widths[index] for index in shown) + _GAP * len(shown)
        yield from console.render(table, options.update(width=max(width, total)))


def _natural(column: Column, cells: Sequence[str]) -> int:
    widest = max([len(column.title), *(cell_len(Text.from_markup(cell).plain) for cell in cells)])
    return widest if column.most is None else min(widest, column.most)


def _least(column: Column, natural: int) -> int:
    return natural if column.least is None else min(natural, max(column.least, len(column.title)))


def _shown(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """Return the columns that fit, in their order."""
    shown = list(range(len(columns)))
    while sum(_least(columns[index], natural[index]) + _GAP for index in shown) - _GAP > width:
        least_used = max(shown, key=lambda index: columns[index].rank)
        if columns[least_used].rank == 0:
            break
        shown.remove(least_used)
    return shown


def _widths(columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], width: int) -> dict[int, int]:
    """Return the width of each column: its minimum, and as much of the remaining space as it can use, by rank."""
    widths = {index: _least(columns[index], natural[index]) for index in shown}
    left = width - sum(widths.values()) - _GAP * (len(shown) - 1)
    for index in sorted(shown, key=lambda index: columns[index].rank):
        more = min(max(left, 0), natural[index] - widths[index])
        widths[index] += more
        left -= more
    return widths


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
