"""The parts of a dashboard: panels with queries and links."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict, TypeVar, Unpack
from urllib.parse import quote

PartT = TypeVar("PartT", "Query", "Link")


class Kind(StrEnum):
    """Form in which a panel draws its series."""

    GRAPH = "graph"
    STACKED = "stacked"
    NUMBER = "number"


class Unit(StrEnum):
    """Units by Grafana's ids."""

    NUMBER = "short"
    PER_SECOND = "reqps"
    SECONDS = "s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    SHARE = "percentunit"
    USD = "currencyUSD"


@dataclass(frozen=True)
class Query:
    """PromQL expression, and the name of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Link:
    """Link of a panel to a page of the runbook or a query of the Temporal UI."""

    title: str
    url: str


@dataclass(frozen=True)
class Panel:
    """Panel. `warn` and `bad` are the values, in its unit, from which it is yellow and red.

    With `fewer_is_bad` it is red below `bad`. `graph`, `stacked` and `number` make panels.
    """

    title: str
    description: str
    queries: Sequence[Query]
    links: Sequence[Link]
    unit: Unit = Unit.NUMBER
    kind: Kind = Kind.GRAPH
    warn: float | None = None
    bad: float | None = None
    fewer_is_bad: bool = False
    width: int = 8


@dataclass(frozen=True)
class Row:
    """Heading and the panels below it."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Variable:
    """Selection at the top of a dashboard: the values of `label` in `metric`, initially all of them."""

    name: str
    title: str
    metric: str
    label: str


@dataclass(frozen=True)
class Board:
    """Dashboard. `uid` is part of its address and the name of its file."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = field(default=())

    @property
    def panels(self) -> Sequence[Panel]:
        """All panels, in order."""
        return [panel for row in self.rows for panel in row.panels]


class Limits(TypedDict, total=False):
    """Optional limits of a panel, see `Panel`."""

    warn: float
    bad: float
    fewer_is_bad: bool


def graph(
    title: str,
    description: str,
    queries: Query | Sequence[Query],
    links: Link | Sequence[Link],
    unit: Unit = Unit.NUMBER,
    **limits: Unpack[Limits],
) -> Panel:
    """Make a panel with one line per series."""
    return Panel(title, description, _many(queries), _many(links), unit, **limits)


def stacked(
    title: str,
    description: str,
    queries: Query | Sequence[Query],
    links: Link | Sequence[Link],
    unit: Unit = Unit.PER_SECOND,
) -> Panel:
    """Make a panel with the series stacked."""
    return Panel(title, description, _many(queries), _many(links), unit, Kind.STACKED)


def number(
    title: str,
    description: str,
    query: Query,
    links: Link | Sequence[Link],
    unit: Unit = Unit.NUMBER,
    **limits: Unpack[Limits],
) -> Panel:
    """Make a narrow panel with one number."""
    return Panel(title, description, [query], _many(links), unit, Kind.NUMBER, width=4, **limits)


def row(title: str, *panels: Panel) -> Row:
    """Make a row of panels."""
    return Row(title, panels)


def _many(parts: PartT | Sequence[PartT]) -> Sequence[PartT]:
    return parts if isinstance(parts, Sequence) else [parts]


def runbook(page: str, title: str | None = None) -> Link:
    """Link to a page of the runbook: docs/runbooks/PAGE.md."""
    return Link(title or f"Runbook: {page.replace('-', ' ')}", "${docs}/runbooks/" + page)


def temporal_query(title: str, query: str) -> Link:
    """Link to the workflows of a query in the Temporal UI."""
    return Link(title, "${temporal_ui}/namespaces/${namespace}/workflows?query=" + quote(query, safe="${}"))
