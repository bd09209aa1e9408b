"""Counts how often one activity has failed in the same way in a row, across its attempts in this process.

An outage passes, however long it takes. A response that cannot be read may be a proxy's that answers in the platform's
place, once or twice; one that is the same each time will be the same tomorrow. The count tells the two apart.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cachetools import LRUCache
from temporalio import activity

from outlast.activities.failures.contracts import ErrorEnvelope

ENOUGH: Final = 5
"""After so many failures of the same kind the task is told, and what cannot pass is not tried again."""
_LONG_ATTEMPT = timedelta(minutes=5)
"""An attempt that worked for longer has made progress: its failure is the first one."""
_MAX_ACTIVITIES = 20_000
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Seen:
    kind: str
    count: int


_seen: LRUCache[tuple[str, str], _Seen] = LRUCache(_MAX_ACTIVITIES)


def count_failure(info: activity.Info, envelope: ErrorEnvelope) -> int:
    """How many attempts of the activity have failed in a row as `envelope` says, this one included."""
    key = _key_of(info)
    kind = f"{envelope.category}:{_DIGITS.sub('#', envelope.message)[:300]}"
    before = _seen.get(key)
    made_progress = datetime.now(UTC) - info.started_time > _LONG_ATTEMPT
    is_same = before is not None and before.kind == kind and not made_progress
    count = before.count + 1 if is_same and before is not None else 1
    _seen[key] = _Seen(kind, count)
    return count


def failures_in_a_row(info: activity.Info) -> int:
    """As `count_failure` counted them last; 0 before the first."""
    seen = _seen.get(_key_of(info))
    return seen.count if seen is not None else 0


def _key_of(info: activity.Info) -> tuple[str, str]:
    return info.workflow_run_id or "", info.activity_id
