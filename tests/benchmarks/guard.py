"""Holds what was measured against figures that were accepted before, and says which have become worse.

Only figures that machines can compare are held (`Figure.better`): ratios between the sides of one run, and counts such
as events of a history. Milliseconds are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from rich.console import Console
from rich.table import Table

from tests.benchmarks.report import Figure, Finding

ACCEPTED = Path(__file__).with_name("accepted.json")
TOLERANCE = 0.1
"""Of a figure that is accepted for the first time; another one is written into the file by hand."""


class AcceptedFigure(BaseModel):
    """What a figure was when somebody accepted it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    better: Literal["lower", "higher"]
    tolerance: float = Field(ge=0)
    """How much worse it may be: a share of `value`."""

    def verdict_on(self, value: float) -> Literal["worse", "as accepted", "better"]:
        """Whether `value` is further from `self.value` than the tolerance allows, and in which direction."""
        change = (value - self.value) * (1 if self.better == "lower" else -1)
        allowed = abs(self.value) * self.tolerance
        return "worse" if change > allowed else "better" if change < -allowed else "as accepted"


Accepted = Mapping[str, Mapping[str, AcceptedFigure]]
"""By benchmark, and by the figure's name."""
_FILE: TypeAdapter[dict[str, dict[str, AcceptedFigure]]] = TypeAdapter(dict[str, dict[str, AcceptedFigure]])


@dataclass(frozen=True)
class Comparison:
    """One figure, then and now."""

    benchmark: str
    figure: str
    then: float | None
    now: float | None
    verdict: Literal["worse", "as accepted", "better", "not measured", "not accepted yet"]

    @property
    def is_failure(self) -> bool:
        """Whether somebody must look: it is worse, or one of the two is missing."""
        return self.verdict not in {"as accepted", "better"}


def read_accepted(path: Path = ACCEPTED) -> Accepted:
    """What was accepted; nothing where there is no file. Raises `pydantic.ValidationError` for another form."""
    return _FILE.validate_json(path.read_bytes()) if path.is_file() else {}


def compare(findings: Sequence[Finding], accepted: Accepted) -> list[Comparison]:
    """Each figure that was accepted for the benchmarks that ran, and each that should have been."""
    return [comparison for finding in findings for comparison in _compared(finding, accepted)]


def _compared(finding: Finding, accepted: Accepted) -> list[Comparison]:
    known = accepted.get(finding.benchmark, {})
    measured = {figure.name: figure.value for figure in finding.figures}
    compared = [_of_known(finding.benchmark, name, then, measured.get(name)) for name, then in known.items()]
    new = (figure for figure in finding.figures if figure.better and figure.name not in known)
    return [
        *compared,
        *(Comparison(finding.benchmark, figure.name, None, figure.value, "not accepted yet") for figure in new),
    ]


def _of_known(benchmark: str, name: str, then: AcceptedFigure, now: float | None) -> Comparison:
    verdict = "not measured" if now is None else then.verdict_on(now)
    return Comparison(benchmark, name, then.value, now, verdict)


def accept(findings: Sequence[Finding], accepted: Accepted) -> Accepted:
    """`accepted` with what was measured now; tolerances, and benchmarks that did not run, stay as they were."""
    return {**accepted, **{finding.benchmark: now for finding in findings if (now := _accepted_now(finding, accepted))}}


def _accepted_now(finding: Finding, accepted: Accepted) -> dict[str, AcceptedFigure]:
    known = accepted.get(finding.benchmark, {})
    return {figure.name: _as_accepted(figure, known) for figure in finding.figures if figure.better}


def _as_accepted(figure: Figure, known: Mapping[str, AcceptedFigure]) -> AcceptedFigure:
    assert figure.better is not None
    tolerance = known[figure.name].tolerance if figure.name in known else TOLERANCE
    return AcceptedFigure(value=round(figure.value, 3), better=figure.better, tolerance=tolerance)


def write_accepted(accepted: Accepted, path: Path = ACCEPTED) -> None:
    """Write the file that `read_accepted` reads."""
    path.write_bytes(_FILE.dump_json({name: dict(figures) for name, figures in accepted.items()}, indent=2) + b"\n")


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """One row per figure; what failed stands last, where a terminal ends."""
    table = Table(title="Against the accepted figures")
    for heading in ("benchmark", "figure", "accepted", "now", ""):
        table.add_column(heading, justify="right" if heading in {"accepted", "now"} else "left")
    for comparison in sorted(comparisons, key=lambda each: each.is_failure):
        verdict = comparison.verdict.upper() if comparison.is_failure else comparison.verdict
        table.add_row(
            comparison.benchmark, comparison.figure, _written(comparison.then), _written(comparison.now), verdict
        )
    Console(width=120).print(table)
    if any(comparison.verdict == "not accepted yet" for comparison in comparisons):
        print("Figures that nobody has accepted are taken over with --accept in place of --check.")


def _written(value: float | None) -> str:
    return "" if value is None else f"{value:,.3g}"
