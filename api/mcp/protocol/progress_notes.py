"""What a progress notification says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProgressNote:
    """One step of a call, as its client is told. Without `done` the steps are counted."""

    message: str
    done: float | None = None
    total: float | None = None
    meta: Mapping[str, Any] | None = None
    """The `_meta` of the notification."""


@dataclass(frozen=True)
class ProgressFacts:
    """An event of a task, and what is known of its run by then."""

    event: str
    data: Mapping[str, Any]
    actor: str | None = None
    run_id: str | None = None
