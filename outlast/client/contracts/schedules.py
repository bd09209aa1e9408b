"""Schedules and their firings, and saved calls."""

from datetime import datetime

from pydantic import Field, JsonValue

from outlast.client.contracts.base import Response
from outlast.client.contracts.tasks import ToolError


class Firing(Response):
    """One time that a schedule was due, and what came of it."""

    id: str
    scheduled_at: datetime
    """When it was due."""
    started_at: datetime
    status: str | None = None
    """`starting`, `working`, `completed`, `failed`, `cancelled`, `refused` (nothing was started) or `missed` (it was
    too late). None in lists, and when it is no longer kept.
    """
    task_id: str | None = None
    batch_id: str | None = None
    cost_usd: float | None = None
    error: ToolError | None = None


class Interval(Response):
    """Every so many seconds, counted from 1970-01-01T00:00:00Z."""

    seconds: int
    offset_seconds: int = 0


class Schedule(Response):
    """What is started when it is due. Secrets are masked. Money is in US dollars."""

    id: str
    note: str | None = None
    tool: str
    """The tool that it calls, or the name of the saved call."""
    call: dict[str, JsonValue] | None = None
    batch: dict[str, JsonValue] | None = None
    saved: dict[str, JsonValue] | None = None
    cron: tuple[str, ...] = ()
    every: tuple[Interval, ...] = ()
    time_zone: str = "UTC"
    jitter_seconds: int = 0
    start_at: datetime | None = None
    end_at: datetime | None = None
    overlap: str = "skip"
    catch_up_seconds: int = 0
    budget_usd: float | None = None
    pause_on: tuple[str, ...] = ()
    """Categories of errors after which it is paused."""
    paused: bool = False
    paused_because: str | None = None
    next: tuple[datetime, ...] = ()
    """When it is due next; empty while it is paused."""
    recent: tuple[Firing, ...] = ()
    """The latest firings, the last one first."""
    fired: int = 0
    skipped: int = 0
    missed: int = 0
    spent_usd: float | None = None
    created_at: datetime
    updated_at: datetime | None = None
    schedule_url: str | None = None
    damaged: str | None = None
    """Why what it starts cannot be read, and what to do; `tool` is empty then."""


class SchedulePage(Response):
    """One page of schedules."""

    schedules: tuple[Schedule, ...]
    next_page_token: str | None = None


class DueTimes(Response):
    """Moments at which a schedule is due."""

    times: tuple[datetime, ...]


class SavedCall(Response):
    """A tool and its input under a name. Secrets are masked."""

    name: str
    note: str | None = None
    tool: str
    arguments: dict[str, JsonValue]
    mode: str | None = None
    options: dict[str, JsonValue] = Field(default_factory=dict)
    saved_at: datetime
    damaged: str | None = None
    """Why it cannot be read, and what to do; `tool` is empty then."""


class SavedCallList(Response):
    """All saved calls, by name."""

    saved_calls: tuple[SavedCall, ...]
