"""Tables that fit the terminal: columns are left out in the order of their use, and ids are never cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, whose cells are Rich markup.

    `rank` is its use: the column with the highest one is left out first, one with rank 0 never. `least` is the width
    below which it says nothing; None shows every cell whole, for what is copied. `most` is the width that it never
    exceeds.
    """

    title: str
    rank: int = 0
    least: int | None = None
    most: int | None = None
    style: str = ""
    justify: Literal["left", "right"] = "left"


@dataclass(frozen=True, slots=True)
class FittingTable:
    """A table as wide as the terminal at most, and wider only when what must not be cut is. Print it with `crop=False`.

    Without titles it has no header.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it as Rich asks for it."""
        from rich.table import Table  # noqa: PLC0415 (few commands show one)

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
    """The columns that have room, in their order."""
    shown = list(range(len(columns)))
    while sum(_least(columns[index], natural[index]) + _GAP for index in shown) - _GAP > width:
        least_used = max(shown, key=lambda index: columns[index].rank)
        if columns[least_used].rank == 0:
            break
        shown.remove(least_used)
    return shown


def _widths(columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], width: int) -> dict[int, int]:
    """The width of each column: its least width, and of what is left as much as it can use, the most used first."""
    widths = {index: _least(columns[index], natural[index]) for index in shown}
    left = width - sum(widths.values()) - _GAP * (len(shown) - 1)
    for index in sorted(shown, key=lambda index: columns[index].rank):
        more = min(max(left, 0), natural[index] - widths[index])
        widths[index] += more
        left -= more
    return widths
