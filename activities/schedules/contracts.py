"""Contracts of schedules: what is due, what was started, and how it has ended. Money is exact. A schedule starts a
firing whenever it is due: a small workflow, which has the call or the batch started, and awaits it.
"""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import Field

from outlast.activities.contracts import Caller, Contract, ErrorEnvelope, JsonObject

FIRING_WORKFLOW = "ScheduleFiringWorkflow"
SCHEDULE_ATTRIBUTE = "OutlastSchedule"
"""Search attribute of a firing, and of the task, the batch and the batch's items that it has started."""

StartedKind = Literal["task", "batch"]
EndStatus = Literal["completed", "failed", "cancelled"]


class Due(Contract):
    """The work of a schedule: a call, a batch, or a saved call. Its secrets are encrypted for the caller."""

    call: JsonObject | None = Field(default=None, description="A request for a task.")
    batch: JsonObject | None = Field(default=None, description="A request for a batch.")
    saved: str | None = Field(default=None, description="Name of a saved call, read at the time of the firing.")
    arguments: JsonObject = Field(default={}, description="With `saved`: arguments that override those of the call.")


class StartFiringInput(Contract):
    """Input of `start_firing`: have what is due started, at most once for `firing_id`."""

    schedule_id: str = Field(description="As its caller named it.")
    tool: str = Field(description="Name of the tool in errors.")
    firing_id: str
    caller: Caller
    due: Due
    limit_usd: Decimal | None = Field(default=None, description="Maximum cost; None without a limit.")
    began_at: datetime = Field(description="Start of the firing.")
    not_after: datetime = Field(description="Latest time for the start.")
    times_until: datetime | None = Field(
        default=None, description="End of the period whose clock changes are in Temporal."
    )


class Started(Contract):
    """The work that a firing has started."""

    kind: StartedKind
    id: str


class FiringStart(Contract):
    """Result of `start_firing`: what was started, or why nothing was."""

    started: Started | None = None
    error: ErrorEnvelope | None = None
    is_late: bool = Field(default=False, description="Whether nothing was started because it was too late.")


class FiringEnd(Contract):
    """Result of `await_firing`: how what was started has ended."""

    status: EndStatus
    cost_usd: Decimal = Decimal(0)
    error: ErrorEnvelope | None = None


class PauseInput(Contract):
    """Input of `pause_schedule`."""

    temporal_id: str = Field(description="Id of the Temporal Schedule.")
    note: str = Field(description="Reason, for people.")
