"""What a Prometheus tells about the panels of a dashboard: their own queries, asked as Grafana asks them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from outlast.deploy.grafana.board import Board, Query
from tests.pictures.drawing import Series, Told
from tests.support.stacks.prometheus import Prometheus

RATE_INTERVAL = "1m"
"""What `$__rate_interval` is for an hour on the screen and scrapes every 15 seconds."""
_POINTS = 60
_CHOSEN = {"$namespace": "default", "$tool": ".*", "$queue": ".*", "$provider": ".*"}


def told(prometheus: Prometheus, board: Board, begin: float, end: float) -> Told:
    """The series of every panel from one moment to another, both in Unix seconds."""
    step = max(1, round((end - begin) / _POINTS))
    moments = [float(begin + number * step) for number in range(int((end - begin) // step) + 1)]

    def asked(query: Query) -> Sequence[Series]:
        expression = _chosen(query.expr, f"{int(end - begin)}s")
        result = prometheus.get(
            "query_range", query=expression, start=f"{begin}", end=f"{moments[-1]}", step=f"{step}"
        )["result"]
        return [Series(_legend(query, one["metric"]), _values(one["values"], moments)) for one in result]

    return Told(moments, [[one for query in panel.queries for one in asked(query)] for panel in board.panels])


def _chosen(expression: str, shown: str) -> str:
    for name, value in {**_CHOSEN, "$__rate_interval": RATE_INTERVAL, "$__range": shown}.items():
        expression = expression.replace(name, value)
    return expression


def _legend(query: Query, labels: Mapping[str, str]) -> str:
    """The legend with the values of the labels that it names; empty where a query has a single series."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), query.legend).strip()


def _values(pairs: Sequence[Sequence[Any]], moments: Sequence[float]) -> Sequence[float]:
    """A value for each moment; NaN where there is none."""
    known = {round(float(moment)): float(value) for moment, value in pairs}
    return [known.get(round(moment), float("nan")) for moment in moments]
