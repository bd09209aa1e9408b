"""Schedules and saved calls, at every entry point."""

import re
from datetime import datetime
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    model_validator,
)

from outlast.activities.bounds import Usd
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.contracts.base import Open, Response, absent
from outlast.contracts.batches import BatchRequest
from outlast.workflows.contracts.tool_calls import CallOptions
from outlast.workflows.contracts.tool_masks import TOOL_MASK_DESCRIPTION, ToolMask
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly
from outlast.workflows.schedules.contracts import (
    MAX_TIMES,
    FiringStatus,
    Interval,
    Overlap,
    Spending,
    Timing,
)
from outlast.workflows.tools.framework.ids import Id

MAX_BACKFILLED = 500
"""Firings that one backfill asks for at most."""
_SHORTHANDS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_FIVE_FIELDS = re.compile(r"[\w*,/?-]+(?: +[\w*,/?-]+){4}", re.ASCII)

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Names a schedule, or a saved call, among those of its caller."""


_SUBSCRIBE = "its secret would be kept with the call. Subscribe the address instead: POST /v1/webhooks"


class ScheduledCall(KnownFieldsOnly):
    """A tool call, as for a task."""

    model_config = ConfigDict(extra="forbid")

    tool: str = Field(min_length=1, max_length=128, description="Name of the tool, see GET /v1/tools.")
    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="Arguments that match the tool's schema.")
    mode: Id | None = Field(default=None, description="As for a task.")
    options: CallOptions = Field(default_factory=CallOptions, description="Deadline, budget and output of each call.")
    tool_mask: ToolMask = Field(
        default=None, validation_alias=AliasChoices("toolMask", "tool_mask"), description=TOOL_MASK_DESCRIPTION
    )

    @model_validator(mode="after")
    def _without_reuse(self) -> Self:
        if self.options.reuse is not None:
            raise ValueError("such calls do not reuse answers: leave out `options.reuse`")
        return self

    @model_validator(mode="after")
    def _without_webhooks(self) -> Self:
        if self.options.webhooks:
            raise ValueError(f"leave out `options.webhooks`: {_SUBSCRIBE}")
        return self


class SavedCallUse(KnownFieldsOnly):
    """A saved call, and where this use of it differs."""

    model_config = ConfigDict(extra="forbid")

    name: Name = Field(description="Name of the saved call.")
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Arguments that override those of the saved call, objects field by field."
    )


def _cron(text: str) -> str:
    text = " ".join(text.split())
    if text.startswith("@") and text not in _SHORTHANDS:
        raise ValueError(f"{text!r} is none of {', '.join(sorted(_SHORTHANDS))}")
    if not text.startswith("@") and not _FIVE_FIELDS.fullmatch(text):
        raise ValueError(f"{text!r} has not five fields: minute, hour, day of month, month, day of week")
    return text


CronText = Annotated[str, Field(max_length=200), AfterValidator(_cron)]


class _Target(KnownFieldsOnly):
    """The work that a schedule starts."""

    model_config = ConfigDict(extra="forbid")

    call: ScheduledCall | None = Field(default=None, description="The call that it makes.")
    batch: BatchRequest | None = Field(
        default=None, description="The batch that it starts. `rows` are read again whenever it is due."
    )
    saved: SavedCallUse | None = Field(
        default=None, description="The saved call that it makes, in its version at the due time."
    )

    @model_validator(mode="after")
    def _without_webhooks_of_batches(self) -> Self:
        if self.batch is not None and (self.batch.webhooks or self.batch.options.webhooks):
            raise ValueError(f"leave out the batch's `webhooks`: {_SUBSCRIBE}")
        return self

    @property
    def targets(self) -> int:
        """Their number."""
        return sum(target is not None for target in (self.call, self.batch, self.saved))


class ScheduleRequest(_Target, Timing, Spending):
    """A schedule: what it starts, and when."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "id": "nightly",
                    "call": {"tool": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 5}}},
                    "cron": ["17 2 * * *"],
                    "time_zone": "Europe/Prague",
                }
            ]
        },
    )

    id: Name = Field(description="Its id, unique among your schedules.")
    cron: tuple[CronText, ...] = Field(
        default=(), max_length=MAX_TIMES, description=Timing.model_fields["cron"].description
    )
    start_at: AwareDatetime | None = Field(default=None, description="Nothing is due before this time.")
    end_at: AwareDatetime | None = Field(default=None, description="Nothing is due after this time.")
    note: str | None = Field(default=None, max_length=500, description="Its purpose; any text.")
    paused: bool = Field(default=False, description="Whether it is created paused.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.targets != 1:
            raise ValueError("give one of `call`, `batch` and `saved`")
        check_timing(self)
        if self.budget_usd is not None and self.overlap == "allow_all":
            raise ValueError(
                "`budget_usd` requires firings that run one after another: choose an `overlap` other than `allow_all`"
            )
        return self


class ScheduleChanges(_Target):
    """Changed settings; absent fields stay the same. `null` removes an optional setting."""

    model_config = ConfigDict(extra="forbid")

    cron: tuple[CronText, ...] | None = Field(default=None, max_length=MAX_TIMES)
    every: tuple[Interval, ...] | None = Field(default=None, max_length=MAX_TIMES)
    time_zone: str | None = Field(default=None, min_length=1, max_length=100)
    jitter_seconds: int | None = Field(default=None, ge=0, le=24 * 3600)
    start_at: AwareDatetime | None = None
    end_at: AwareDatetime | None = None
    overlap: Overlap | None = None
    catch_up_seconds: int | None = Field(default=None, ge=60, le=366 * 24 * 3600)
    budget_usd: Usd | None = Field(default=None, description="The cost of earlier firings counts.")
    pause_on: tuple[ErrorCategory, ...] | None = Field(default=None, max_length=len(ErrorCategory))
    note: str | None = Field(default=None, max_length=500)

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if self.targets > 1:
            raise ValueError("give one of `call`, `batch` and `saved`")
        return self


class PauseRequest(KnownFieldsOnly):
    """Reason for pausing or resuming a schedule."""

    model_config = ConfigDict(extra="forbid")

    reason: str | None = Field(default=None, min_length=1, max_length=500, description="For people; any text.")


class Period(BaseModel):
    """A period."""

    start: AwareDatetime = Field(description="Start of the period, inclusive.")
    end: AwareDatetime = Field(description="End of the period.")

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if self.end < self.start:
            raise ValueError("`end` is before `start`")
        return self


class BackfillRequest(KnownFieldsOnly, Period):
    """The period to backfill: the schedule fires for each due time in it."""

    model_config = ConfigDict(extra="forbid")

    overlap: Overlap = Field(
        default="buffer_all", description="Overlap policy of these firings. Default: one after another."
    )


class DueTimes(Response):
    """Due times of a schedule."""

    times: tuple[datetime, ...]


class Firing(Response):
    """A due time of a schedule, and its result."""

    id: str
    scheduled_at: datetime = Field(description="When it was due.")
    started_at: datetime
    status: Open[FiringStatus] | None = Field(default=None, description="Absent if Temporal no longer has it.")
    task_id: str | None = Field(default=None, description="The task that it started.")
    batch_id: str | None = Field(default=None, description="The batch that it started.")
    cost_usd: float | None = None
    error: ErrorEnvelope | None = Field(default=None, description="Why it failed or started nothing.")


class Schedule(Response):
    """A schedule and its state. Secrets of what it starts are masked."""

    id: str
    caller: str | None = Field(default=None, description="Id of the caller whose schedule it is.")
    note: str | None = None
    tool: str = Field(description="The tool that it calls, or the name of the saved call.")
    call: dict[str, JsonValue] | None = None
    batch: dict[str, JsonValue] | None = None
    saved: dict[str, JsonValue] | None = None
    cron: tuple[str, ...] = ()
    every: tuple[Interval, ...] = ()
    time_zone: Annotated[str, absent("UTC")]
    jitter_seconds: Annotated[int, absent(0)]
    start_at: datetime | None = None
    end_at: datetime | None = None
    overlap: Annotated[Open[Overlap], absent("skip")]
    catch_up_seconds: Annotated[int, absent(0)]
    budget_usd: float | None = None
    pause_on: Annotated[tuple[Open[ErrorCategory], ...], absent(())]
    paused: Annotated[bool, absent(False)]
    paused_because: str | None = Field(default=None, description="Why it is paused.")
    next: Annotated[tuple[datetime, ...], absent(())] = Field(
        description="When it is due next; empty while it is paused."
    )
    recent: Annotated[tuple[Firing, ...], absent(())] = Field(
        description="The latest firings, newest first. In lists, without their state."
    )
    fired: Annotated[int, absent(0)] = Field(description="Number of firings so far.")
    skipped: Annotated[int, absent(0)] = Field(
        description="Number of due times skipped because an earlier firing was running."
    )
    missed: Annotated[int, absent(0)] = Field(
        description="Number of due times missed because the server was down for too long."
    )
    spent_usd: float | None = Field(
        default=None, description="Cost of its firings, as of the latest one that Temporal still has."
    )
    created_at: datetime
    updated_at: datetime | None = None
    schedule_url: str | None = Field(default=None, description="The schedule in the Temporal UI.")
    damaged: str | None = Field(
        default=None,
        description="Why its call cannot be read, and what to do; its tool is then empty. Absent otherwise.",
    )


class SchedulePage(Response):
    """Your schedules."""

    schedules: tuple[Schedule, ...]
    next_page_token: str | None = Field(
        default=None, description="Pass as page_token for the next page; absent on the last."
    )


def check_timing(timing: Timing) -> None:
    """Raise `ValueError` for times that cannot be."""
    if not timing.cron and not timing.every:
        raise ValueError("give `cron` or `every`: without them it is never due")
    if any(interval.offset_seconds >= interval.seconds for interval in timing.every):
        raise ValueError("the `offset_seconds` of an interval must be less than its `seconds`")
    if timing.start_at is not None and timing.end_at is not None and timing.end_at <= timing.start_at:
        raise ValueError("`end_at` must be after `start_at`")


class SaveCallRequest(ScheduledCall):
    """A call to save under a name."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"tool": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 5}}}]
        },
    )

    note: str | None = Field(default=None, max_length=500, description="Its purpose; any text.")


class RunSavedCall(KnownFieldsOnly):
    """Changes of a saved call for one use."""

    model_config = ConfigDict(extra="forbid")

    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Arguments that override those of the saved call, objects field by field."
    )


MAX_UPCOMING = 500


class UpcomingFiring(Response):
    """A time at which a schedule is due."""

    at: datetime
    schedule_id: str
    caller: str | None = None
    tool: str
    note: str | None = None
    damaged: str | None = Field(default=None, description="Why the schedule cannot start anything, if it cannot.")


class Upcoming(Response):
    """The next firings of several schedules."""

    until: datetime
    firings: tuple[UpcomingFiring, ...]
    more: Annotated[bool, absent(False)] = Field(
        description=f"Whether there are more in the period: at most ten of a schedule, and {MAX_UPCOMING} together."
    )


class SavedCall(Response):
    """A tool and its input under a name. Secrets are masked."""

    name: Name
    note: str | None = None
    tool: str
    arguments: dict[str, JsonValue]
    mode: str | None = None
    options: Annotated[dict[str, JsonValue], absent({})] = Field(
        description="Options that differ from the server's defaults."
    )
    saved_at: datetime
    damaged: str | None = Field(
        default=None,
        description="Why it cannot be read, and what to do; its tool is then empty. Absent otherwise.",
    )


class SavedCallList(Response):
    """Your saved calls, by name."""

    saved_calls: tuple[SavedCall, ...]
