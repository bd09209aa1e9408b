"""Contracts of schedules and their firings: what Temporal keeps of them."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from outlast.activities.bounds import MAX_SECONDS, AtMost, Usd
from outlast.activities.contracts import Caller, Contract, ErrorCategory, ErrorEnvelope
from outlast.activities.schedules.contracts import Due, Started

MAX_TIMES = 20
"""Cron expressions, and intervals, of one schedule."""
LEAST_INTERVAL_SECONDS = 60
MAX_INTERVAL_SECONDS = 366 * 24 * 3600
DEFAULT_CATCH_UP_SECONDS = 24 * 3600

Overlap = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "allow_all"]
"""Policy for a firing that is due while an earlier one is still running."""


class Interval(Contract):
    """A fixed interval, counted from 1970-01-01T00:00:00Z."""

    seconds: int = Field(ge=LEAST_INTERVAL_SECONDS, le=MAX_INTERVAL_SECONDS, description="Length of the interval.")
    offset_seconds: Annotated[int, Field(ge=0), AtMost(MAX_SECONDS)] = Field(
        default=0, description="Time from the start of each interval to its due time."
    )


class Timing(Contract):
    """Due times of a schedule, and the handling of overlapping and missed ones."""

    cron: tuple[str, ...] = Field(
        default=(),
        max_length=MAX_TIMES,
        description="Cron expressions of five fields, such as `17 2 * * *`, or `@daily` and similar.",
    )
    every: tuple[Interval, ...] = Field(default=(), max_length=MAX_TIMES, description="Intervals.")
    time_zone: str = Field(
        default="UTC",
        min_length=1,
        max_length=100,
        description="Time zone of the cron expressions, such as `Europe/Prague` (IANA).",
    )
    jitter_seconds: int = Field(
        default=0, ge=0, le=24 * 3600, description="Maximum random delay of each firing, in seconds."
    )
    start_at: datetime | None = Field(default=None, description="Nothing is due before this time.")
    end_at: datetime | None = Field(default=None, description="Nothing is due after this time.")
    overlap: Overlap = Field(
        default="skip",
        description="What happens if an earlier firing is still running: `skip`; one firing waits (`buffer_one`), or "
        "all (`buffer_all`); the earlier one is cancelled (`cancel_other`); or both run (`allow_all`).",
    )
    catch_up_seconds: int = Field(
        default=DEFAULT_CATCH_UP_SECONDS,
        ge=60,
        le=366 * 24 * 3600,
        description="Due times that pass while the server is down are fired up to this much later; older ones are "
        "missed.",
    )


class Spending(Contract):
    """Budget of a schedule, and the conditions that stop it."""

    budget_usd: Usd | None = Field(
        default=None,
        description="Maximum cost of all firings together, in US dollars. When it is reached, the schedule is paused.",
    )
    pause_on: tuple[ErrorCategory, ...] = Field(
        default=(ErrorCategory.PAYMENT, ErrorCategory.AUTHENTICATION, ErrorCategory.PERMISSION),
        max_length=len(ErrorCategory),
        description="Categories of errors after which the schedule is paused, since the next firing would fail, too.",
    )


class FiringInput(Contract):
    """Input of a firing. As the argument of its schedule, it is all that is known of the schedule besides its state."""

    schedule_id: str = Field(description="As its caller named it.")
    temporal_id: str = Field(description="Id of the Temporal Schedule.")
    caller: Caller
    due: Due
    tool: str = Field(description="Name of the tool, or of the saved call.")
    timing: Timing
    spending: Spending = Spending()
    note: str | None = Field(default=None, description="For people: what it is for.")
    created_at: datetime
    fingerprint: str = Field(description="Digest of the request, to detect repeated requests.")
    times_until: datetime | None = Field(
        default=None,
        description="Clock changes up to this time are in the Temporal Schedule; None in older schedules.",
    )


class FiringStatus(StrEnum):
    """State of a firing. All but `starting` and `working` are final."""

    STARTING = "starting"
    WORKING = "working"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    MISSED = "missed"


class FiringProgress(Contract):
    """Memo of a firing: the work that it started, and its outcome."""

    status: FiringStatus
    started: Started | None = None
    cost_usd: Decimal = Decimal(0)
    spent_usd: Decimal = Field(default=Decimal(0), description="Cost of all firings, including this one.")
    error: ErrorEnvelope | None = None


class FiringOutcome(FiringProgress):
    """Result of a firing. Temporal hands it to the next one, which continues with `spent_usd`."""
