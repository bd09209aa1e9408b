"""Progress of a task: a live display on a terminal, one line per change elsewhere."""

import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from outlast.cli.show.output import Output, clock, one_line

_DONE_OF_TOTAL = re.compile(r"(?<![\w./])(\d[\d,]*(?:\.\d+)?)\s*(?:/|\bof\b)\s*(\d[\d,]*(?:\.\d+)?)(?![\w/]|\.\d)")


def done_of_total(message: str | None) -> tuple[float, float] | None:
    """Return the first valid share (done, total) in a status message, such as `12/30` or `12 of 30`."""
    for match in _DONE_OF_TOTAL.finditer(message or ""):
        done, total = (float(number.replace(",", "")) for number in match.groups())
        if 0 <= done <= total and total > 0:
            return done, total
    return None


class TaskProgress:
    """Shows one task while the block runs. On a terminal, it leaves nothing."""

    def __init__(self, output: Output, *, age_seconds: float = 0) -> None:
        """Show a task that was created `age_seconds` ago."""
        self._output = output
        self._board = _Board(time.monotonic() - age_seconds)
        self._live = (
            Live(self._board, console=output.err, transient=True, refresh_per_second=8) if output.is_live else None
        )
        self._shown = ""
        self._shown_at = ""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, state: str | None = None, message: str | None = None, *, at: str | None = None) -> None:
        """Show the state and the status message as of `at` (ISO 8601). None keeps the current value.

        Values older than those shown, from repeated events, are ignored.
        """
        board = self._board
        if at is not None and at < self._shown_at:
            return
        self._shown_at = at or self._shown_at
        board.state = state or board.state
        if message is not None:
            board.message = one_line(message)
            board.share = done_of_total(board.message) or board.share
        line = f"{board.state}  {board.message}".strip()
        if self._live is None and line != self._shown:
            self._output.note(f"[dim]{clock(board.elapsed_seconds):>6}[/]  {escape(line)}")
        self._shown = line

    @contextmanager
    def paused(self) -> Generator[None]:
        """Hide the display while the block runs, so that the user can type."""
        if self._live is not None:
            self._live.stop()
        try:
            yield
        finally:
            if self._live is not None:
                self._live.start()

    def trouble(self, text: str | None) -> None:
        """Show a problem until it is cleared with None."""
        self._board.trouble = one_line(text)
        if self._live is None and text is not None:
            self._output.note(f"[yellow]…[/] {escape(one_line(text))}")


class _Board:
    """A line with spinner, state, bar and clock, and below it the status message."""

    def __init__(self, began: float) -> None:
        self.state = "starting"
        self.message = ""
        self.trouble = ""
        self.share: tuple[float, float] | None = None
        self._began = began
        self._spinner = Spinner("dots", style="cyan")

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    def __rich__(self) -> RenderableType:
        board = Table.grid(padding=0)
        board.add_row(self._headline())
        if self.trouble:
            board.add_row(Text(f"  {self.trouble}", style="yellow", no_wrap=True, overflow="ellipsis"))
        elif self.message:
            board.add_row(Text(f"  {self.message}", style="dim", no_wrap=True, overflow="ellipsis"))
        return board

    def _headline(self) -> RenderableType:
        line = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [self._spinner, Text(self.state, style="bold", no_wrap=True), self._bar()]
        if self.share is not None:
            done, total = self.share
            cells.append(Text(f"{done:,g}/{total:,g} ({done / total:.0%})", style="cyan"))
        cells.append(Text(clock(self.elapsed_seconds), style="dim"))
        line.add_row(*cells)
        return line

    def _bar(self) -> ProgressBar:
        if self.share is None:
            return ProgressBar(total=None, width=30, pulse=True, pulse_style="cyan")
        done, total = self.share
        return ProgressBar(total=total, completed=done, width=30, complete_style="cyan", finished_style="green")
