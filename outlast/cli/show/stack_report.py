"""The events of a stack on the terminal: its parts while they start, its addresses, and what happens to it later."""

import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.markup import escape
from rich.status import Status

from outlast.cli.show.entries import Entries
from outlast.cli.show.output import Output
from outlast.cli.show.tables import Column, FittingTable
from outlast.cli.show.wording import duration
from outlast.deploy.local.state import StackAddresses, StackEvent, StackEventKind

_MARKS = {
    StackEventKind.READY: "[green]✓[/]",
    StackEventKind.EXITED: "[red]✗[/]",
    StackEventKind.RESTARTING: "[yellow]↻[/]",
    StackEventKind.RELOADING: "[cyan]↻[/]",
    StackEventKind.RELOAD_FAILED: "[red]✗[/]",
    StackEventKind.PORT_CHANGED: "[yellow]![/]",
    StackEventKind.BEGIN_ANEW: "[yellow]![/]",
}
_SILENT = frozenset({StackEventKind.STARTING, StackEventKind.STOPPED})


class StackReport:
    """Shows the events of one stack: pass `tell` as its `on_event`, and wrap its start in a `with` block."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._began = time.monotonic()
        self._starting: list[str] = []
        self._is_up = False
        self._is_over = False
        self._status = Status("", console=output.err) if output.is_live and not output.as_json else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop_spinner()

    def is_up(self) -> None:
        """Everything is ready; events from now on are shown with their time."""
        self._is_up = True
        self.stop_spinner()

    def is_over(self) -> None:
        """Show no further events."""
        self._is_over = True

    def stop_spinner(self) -> None:
        """Stop the spinner, so that others can print."""
        if self._status is not None:
            self._status.stop()

    def tell(self, event: StackEvent) -> None:
        """Show one event."""
        if self._is_over:
            return
        if self._output.as_json:
            self._output.line({"event": event.kind.value, "component": event.component, "message": event.message})
            return
        if event.kind is StackEventKind.STARTING:
            self._starting.append(event.component)
        elif event.kind is StackEventKind.READY and event.component in self._starting:
            self._starting.remove(event.component)
        self._spin()
        if event.kind not in _SILENT:
            self._output.note(self._event_markup(event))

    def _spin(self) -> None:
        if self._status is None or self._is_up:
            return
        if self._starting:
            self._status.update(f"[dim]starting {', '.join(self._starting)}[/]")
            self._status.start()
        else:
            self._status.stop()

    def _event_markup(self, event: StackEvent) -> str:
        mark = _MARKS.get(event.kind, "[dim]·[/]")
        if not self._is_up and event.kind is StackEventKind.READY:
            return f"{mark} {event.component:<9} [dim]{duration(time.monotonic() - self._began)}[/]"
        now = f"[dim]{datetime.now().astimezone():%H:%M:%S}[/] " if self._is_up else ""
        return f"{now}{mark} {escape(event.message)}"


def address_table(addresses: StackAddresses, data_dir: Path) -> Group:
    """Where everything answers, and where its data is; the remarks go first when there is little room."""
    columns = (Column("", style="dim"), Column("", style="bold"), Column("", rank=1, style="dim"))
    rows = [(name, escape(address), remark) for name, address, remark in _addresses_with_remarks(addresses) if address]
    name_width = max(len(name) for name, _, _ in rows)
    folders = [("Data", data_dir), ("Logs", data_dir / "logs")]
    return Group(
        FittingTable(columns, rows),
        Entries([(f"[dim]{name:<{name_width}}[/]", escape(str(folder))) for name, folder in folders]),
    )


def _addresses_with_remarks(addresses: StackAddresses) -> list[tuple[str, str | None, str]]:
    platform = None if addresses.sandbox_url else addresses.apify_api_base_url
    return [
        ("API", addresses.api_url, "/docs describes it"),
        ("Temporal UI", addresses.temporal_ui_url, "every task is a workflow there"),
        ("Temporal", addresses.temporal_address, f"namespace {escape(addresses.temporal_namespace)}"),
        ("Sandbox", addresses.sandbox_url, "speaks the Apify API"),
        ("Apify", platform, "runs are paid by APIFY_TOKEN"),
        ("Docs site", addresses.docs_site_url, "for trying the crawler"),
        ("Metrics", addresses.metrics_url, "of the worker, for Prometheus"),
    ]
