"""The parts of a dashboard: panels with queries and links."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote


class Kind(StrEnum):
    """How a panel draws its series."""

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
    """A PromQL expression, and what its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Link:
    """Where a panel leads: a page of the runbook, or a query of the Temporal UI."""

    title: str
    url: str


@dataclass(frozen=True)
class Panel:
    """One panel. `warn` and `bad` are the values from which it is yellow and red, in its unit.

    `fewer_is_bad` turns them round: it is red below `bad`.
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
    """A heading over the panels that follow."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a dashboard: the values that `label` has in `metric`; all of them at first."""

    name: str
    title: str
    metric: str
    label: str


@dataclass(frozen=True)
class Board:
    """One dashboard. `uid` is part of its address and the name of its file."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = field(default=())

    @property
    def panels(self) -> Sequence[Panel]:
        """All panels, in order."""
        return [panel for row in self.rows for panel in row.panels]


def runbook(page: str, title: str | None = None) -> Link:
    """A page of the runbook: docs/runbooks/PAGE.md."""
    return Link(title or f"Runbook: {page.replace('-', ' ')}", "${docs}/runbooks/" + page)


def temporal_query(title: str, query: str) -> Link:
    """The workflows of a query in the Temporal UI."""
    return Link(title, "${temporal_ui}/namespaces/${namespace}/workflows?query=" + quote(query, safe="${}"))
