"""What a schedule is made with, as the command line says it, and as the client takes it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from outlast.cli.ask.arguments import read_arguments
from outlast.cli.errors import BadInput


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be started."""

    tool: str | None
    source: str | None
    pairs: Sequence[str]
    batch: str | None
    saved: str | None
    mode: str | None
    max_usd: float | None
    max_items: int | None
    max_run_seconds: float | None
    deadline_seconds: float | None

    def options(self) -> dict[str, Any]:
        """As the client takes it; nothing when nothing is said. Raises `BadInput`."""
        if sum(target is not None for target in (self.tool, self.batch, self.saved)) > 1:
            raise BadInput("Give a TOOL, --batch or --saved: one of them.")
        if self.batch is not None:
            return {"batch": read_arguments(self.batch, [])}
        arguments = read_arguments(self.source, list(self.pairs))
        if self.saved is not None:
            return {"saved": {"name": self.saved, "arguments": arguments}}
        if self.tool is None:
            if arguments:
                raise BadInput("There are arguments, but no TOOL that takes them.")
            return {}
        call = {"tool": self.tool, "arguments": arguments, "mode": self.mode, "options": self._call_options()}
        return {"call": {name: value for name, value in call.items() if value is not None}}

    def _call_options(self) -> dict[str, Any] | None:
        budget = {
            "max_total_charge_usd": None if self.max_usd is None else str(self.max_usd),
            "max_items": self.max_items,
            "max_run_seconds": None if self.max_run_seconds is None else round(self.max_run_seconds),
        }
        deadline = None if self.deadline_seconds is None else round(self.deadline_seconds)
        options = {"deadline_seconds": deadline, "budget": _given(budget) or None}
        return _given(options) or None


@dataclass(frozen=True, slots=True)
class Times:
    """When it is due, and what it may spend."""

    cron: Sequence[str] | None
    every_seconds: float | None
    time_zone: str | None
    jitter_seconds: float | None
    start_at: datetime | None
    end_at: datetime | None
    overlap: str | None
    catch_up_seconds: float | None
    budget_usd: float | None
    pause_on: Sequence[str] | None
    note: str | None

    def options(self) -> dict[str, Any]:
        """As the client takes them."""
        pause_on = None if self.pause_on is None else [one for one in self.pause_on if one != "none"]
        return {
            "cron": list(self.cron) if self.cron else None,
            "every_seconds": self.every_seconds,
            "time_zone": self.time_zone,
            "jitter_seconds": self.jitter_seconds,
            "start_at": self.start_at,
            "end_at": self.end_at,
            "overlap": self.overlap,
            "catch_up_seconds": self.catch_up_seconds,
            "budget_usd": self.budget_usd,
            "pause_on": pause_on,
            "note": self.note,
        }


def written(document: object) -> str:
    """A part of a schedule, in one line."""
    return json.dumps(document, ensure_ascii=False)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
