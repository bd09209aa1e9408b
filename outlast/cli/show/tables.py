"""Tables that fit the terminal: the least important columns are left out, and ids are never cut."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

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
