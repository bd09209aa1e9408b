"""The parts of a dashboard: panels with queries and links, and expressions that several dashboards share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self, TypeVar
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
class Limits:
    """Values, in the unit of the panel, from which it is yellow and red; with `fewer_is_bad`, below them."""

    warn: float | None = None
    bad: float | None = None
    fewer_is_bad: bool = False

    @classmethod
    def above(cls, warn: float | None = None, bad: float | None = None) -> Self:
        """Make limits: yellow from `warn`, red from `bad`."""
        return cls(warn, bad)

    @classmethod
    def below(cls, warn: float, bad: float) -> Self:
        """Make limits: yellow below `warn`, red below `bad`."""
        return cls(warn, bad, fewer_is_bad=True)


@dataclass(frozen=True)
class Panel:
    """Panel. `graph`, `stacked` and `number` make panels."""

    title: str
    description: str
    queries: Sequence[Query]
    links: Sequence[Link]
    unit: Unit = Unit.NUMBER
    kind: Kind = Kind.GRAPH
    limits: Limits = Limits()
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


def graph(
    title: str,
    description: str,
    queries: Query | Sequence[Query],
    links: Link | Sequence[Link],
    unit: Unit = Unit.NUMBER,
    limits: Limits = Limits(),
) -> Panel:
    """Make a panel with one line per series."""
    return Panel(title, description, _many(queries), _many(links), unit, limits=limits)


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
    limits: Limits = Limits(),
) -> Panel:
    """Make a narrow panel with one number."""
    return Panel(title, description, [query], _many(links), unit, Kind.NUMBER, limits, width=4)


def row(title: str, *panels: Panel) -> Row:
    """Make a row of panels."""
    return Row(title, panels)


def _many(parts: PartT | Sequence[PartT]) -> Sequence[PartT]:
    return parts if isinstance(parts, Sequence) else [parts]


def runbook(page: str, title: str | None = None) -> Link:
    """Link to a page of the runbook: docs/runbooks/PAGE.md."""
    return Link(title or f"Runbook: {page.replace('-', ' ')}", "${docs}/runbooks/" + page)


def workflows(title: str, query: str) -> Link:
    """Link to the workflows of a query in the Temporal UI."""
    return Link(title, "${temporal_ui}/namespaces/${namespace}/workflows?query=" + quote(query, safe="${}"))


INTERVAL = "$__rate_interval"


def rate(series: str, by: str = "") -> str:
    """Return the events per second, summed by labels (comma-separated) or over all."""
    return f"{_sum(by)}(rate({series}[{INTERVAL}]))"


def increase(series: str, by: str = "") -> str:
    """Return the events in the time that the dashboard shows.

    A series begins with its first event, which Prometheus does not count as an increase: it is added here.
    """
    grown = f"increase({series}[$__range])"
    first = f"(min_over_time({series}[$__range]) unless {series} offset $__range)"
    return f"{_sum(by)}({grown} + {first} or {grown})"


def share(part: str, whole: str, by: str = "") -> str:
    """Return the share of `part` in `whole` per second, 0 to 1; 0 while `part` has no events."""
    return f"({rate(part, by)} or 0 * {rate(whole, by)}) / ({rate(whole, by)} > 0)"


def quantile(level: float, histogram: str, by: str = "") -> str:
    """Return a quantile of a histogram; `histogram` has no `_bucket`, but may have labels."""
    name, brace, labels = histogram.partition("{")
    grouped = f"le, {by}" if by else "le"
    return f"histogram_quantile({level}, sum by ({grouped}) (rate({name}_bucket{brace}{labels}[{INTERVAL}])))"


def mean(histogram: str, by: str = "") -> str:
    """Return the mean of a histogram."""
    name, brace, labels = histogram.partition("{")
    return f"{rate(f'{name}_sum{brace}{labels}', by)} / ({rate(f'{name}_count{brace}{labels}', by)} > 0)"


def _sum(by: str) -> str:
    return f"sum by ({by}) " if by else "sum"
