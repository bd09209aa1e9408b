"""Names with their values: side by side where there is room, one below the other on a narrow terminal."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP = 2
_NARROW = 60
_LEAST_VALUE_WIDTH = 30


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows of Rich markup: one or more names, and a value, which is wrapped between words and never cut.

    Print it with `crop=False`. `titles` stand above the rows where names and values are side by side.
    """

    rows: Sequence[tuple[str, ...]]
    titles: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it as Rich asks for it. What reads a pipe gets every value on one line."""
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
    """The lines of `value`. A word that is longer than a line stays in one piece, which Rich's own wrapping cuts."""
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
