"""Callers near a limit, for operators: as metrics, of which `outlast doctor` reads the second."""

from collections.abc import Iterable, Mapping
from heapq import nlargest

from outlast.api.metrics import LIMIT_NEAR, LIMIT_USED

_NEAR = 0.5
_MAX_CALLERS = 20
_NAMED_CALLERS = ("key:", "local")

Used = Mapping[str, Mapping[str, float]]
"""For each caller, the share of each limit that it uses, 0 to 1."""


def caller_label(caller_id: str) -> str:
    """The caller as metrics show it: those that operators have named by itself, all others as `other`."""
    return caller_id if caller_id.startswith(_NAMED_CALLERS) else "other"


def show_use(*parts: Used) -> None:
    """Set the metrics of limits to `parts`, each of which is about other limits."""
    by_limit: dict[str, dict[str, float]] = {}
    for caller_id, limit, share in _entries(parts):
        shares = by_limit.setdefault(limit, {})
        label = caller_label(caller_id)
        shares[label] = max(shares.get(label, 0.0), share)
    LIMIT_NEAR.clear()
    for limit, shares in by_limit.items():
        LIMIT_USED.labels(limit).set(max(shares.values()))
        for label, share in nlargest(_MAX_CALLERS, shares.items(), key=lambda entry: entry[1]):
            if share >= _NEAR:
                LIMIT_NEAR.labels(limit, label).set(share)


def _entries(parts: Iterable[Used]) -> Iterable[tuple[str, str, float]]:
    for part in parts:
        for caller_id, shares in part.items():
            for limit, share in shares.items():
                yield caller_id, limit, share
