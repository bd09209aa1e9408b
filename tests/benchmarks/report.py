"""What a benchmark found: figures, some of them with a target, as a table and as JSON."""

import dataclasses
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil
from rich.console import Console
from rich.table import Table


class CannotRunError(Exception):
    """A benchmark cannot run on this machine; the message says why, and what it takes."""


@dataclass(frozen=True)
class Target:
    """The bound that a figure must keep."""

    bound: Literal["at most", "at least", "exactly"]
    value: float

    def is_met_by(self, value: float) -> bool:
        """Whether `value` keeps the bound."""
        if self.bound == "exactly":
            return value == self.value
        return value <= self.value if self.bound == "at most" else value >= self.value

    def __str__(self) -> str:
        return f"{self.bound} {self.value:g}"


@dataclass(frozen=True)
class Figure:
    """One number, with its unit, and its target when it has one."""

    name: str
    value: float
    unit: str = ""
    target: Target | None = None
    better: Literal["lower", "higher"] | None = None
    """Set where machines can be compared (ratios, counts): `--check` holds such figures against accepted ones."""

    @property
    def is_met(self) -> bool:
        """Whether the figure keeps its target; true without one."""
        return self.target is None or self.target.is_met_by(self.value)


@dataclass(frozen=True)
class Finding:
    """What one benchmark found, and with what it was made."""

    benchmark: str
    figures: tuple[Figure, ...]
    setting: dict[str, Any] = field(default_factory=dict)

    @property
    def is_met(self) -> bool:
        """Whether every target was met."""
        return all(figure.is_met for figure in self.figures)


def machine() -> dict[str, Any]:
    """Where this ran: figures of different machines cannot be compared, ratios within one run can."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }


def print_figures(finding: Finding) -> None:
    """One line per figure, as soon as it is known."""
    for figure in finding.figures:
        print(f"  {figure.name}: {_written(figure.value)} {figure.unit}".rstrip(), file=sys.stderr, flush=True)


def print_table(findings: Sequence[Finding]) -> None:
    """One table for all benchmarks."""
    table = Table(title="Outlast benchmarks")
    for heading in ("benchmark", "figure", "value", "unit", "target", ""):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for finding in findings:
        for number, figure in enumerate(finding.figures):
            verdict = "" if figure.target is None else "met" if figure.is_met else "MISSED"
            name = finding.benchmark if number == 0 else ""
            table.add_row(name, figure.name, _written(figure.value), figure.unit, str(figure.target or ""), verdict)
        table.add_section()
    # Wide enough for every column wherever it is written to.
    Console(width=120).print(table)


def write_json(findings: Sequence[Finding], path: Path) -> None:
    """Everything, for machines."""
    document = {
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "met": all(finding.is_met for finding in findings),
        "benchmarks": [
            {
                "benchmark": finding.benchmark,
                "setting": finding.setting,
                "met": finding.is_met,
                "figures": [{**dataclasses.asdict(figure), "met": figure.is_met} for figure in finding.figures],
            }
            for finding in findings
        ],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def _written(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
