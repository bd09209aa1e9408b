"""Tools for schedules of calls. Entry points answer them."""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from outlast.activities.bounds import Usd
from outlast.contracts.options import ScheduleOptions, SharedOptions
from outlast.workflows.contracts.unknown_fields import DeclaredOptions
from outlast.workflows.schedules.contracts import LEAST_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS, Overlap
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import (
    Arguments,
    Category,
    NoArguments,
    Tool,
    ToolAnnotations,
    front_door_tool,
    reads,
)

Change = Literal["pause", "resume", "trigger", "delete"]
SCHEDULE_TOOL_OPTIONS = DeclaredOptions(
    SharedOptions,
    ScheduleOptions,
    for_models=True,
    # These are arguments of the tool.
    leave_out={"saved", "cron", "every_seconds", "time_zone", "overlap", "budget_usd", "note"},
)


class ScheduleCallArguments(Arguments):
    """A call, and its times."""

    schedule_id: str = Field(
        alias="scheduleId",
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Names the schedule, for example nightly-prices.",
    )
    tool: Id | None = Field(default=None, description="Name of the tool to call, such as call-actor.")
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Arguments of the tool; for a saved call, those that override its own."
    )
    saved_call: Id | None = Field(
        default=None, alias="savedCall", description="Name of a saved call to start, instead of a tool."
    )
    cron: str | None = Field(
        default=None,
        max_length=200,
        description="Minute, hour, day of month, month, day of week, as in 17 2 * * *. Give cron or everySecs.",
    )
    every_secs: int | None = Field(
        default=None,
        ge=LEAST_INTERVAL_SECONDS,
        le=MAX_INTERVAL_SECONDS,
        alias="everySecs",
        description="An interval, in seconds.",
    )
    time_zone: str = Field(
        default="UTC",
        max_length=100,
        alias="timeZone",
        description="Time zone of the cron expression, such as Europe/Prague.",
    )
    overlap: Overlap = Field(default="skip", description="What happens if an earlier call is still running.")
    budget_usd: Usd | None = Field(
        default=None,
        alias="budgetUsd",
        description="Maximum cost of all its calls together, in US dollars. When it is reached, the schedule is "
        "paused.",
    )
    note: str | None = Field(default=None, max_length=500, description="Its purpose, for people.")
    options: Annotated[dict[str, Any], SCHEDULE_TOOL_OPTIONS] = Field(
        default_factory=dict, description="Further options of each call, except of a saved one, and of the schedule."
    )


class CallScheduleArguments(Arguments):
    """A schedule."""

    schedule_id: Id = Field(alias="scheduleId", description="Id of the schedule.")


class ChangeCallScheduleArguments(CallScheduleArguments):
    """A change of a schedule."""

    change: Change = Field(
        description="pause: nothing is due until it is resumed; resume; trigger: it is due now; delete."
    )


CALL_SCHEDULE_TOOLS: tuple[Tool, ...] = (
    front_door_tool(
        "schedule-call",
        Category.CALL_SCHEDULES,
        ToolAnnotations(title="Schedule call", idempotent=True),
        "Call a tool on a schedule: by a cron expression in a time zone, or at intervals. The call is checked now, "
        "and again each time. The schedule continues without this conversation, and each call may cost money: set "
        "`budgetUsd`. The same schedule again changes nothing.",
        ScheduleCallArguments,
    ),
    front_door_tool(
        "list-call-schedules",
        Category.CALL_SCHEDULES,
        reads("List call schedules"),
        "List the schedules of calls: what they call, when they are due next, and whether they are paused.",
        NoArguments,
    ),
    front_door_tool(
        "get-call-schedule",
        Category.CALL_SCHEDULES,
        reads("Get call schedule"),
        "Get a schedule of calls with its next due times and the results of its latest calls: status, task, cost and "
        "error.",
        CallScheduleArguments,
    ),
    front_door_tool(
        "change-call-schedule",
        Category.CALL_SCHEDULES,
        ToolAnnotations(title="Change call schedule", destructive=True),
        "Pause a schedule of calls, resume it, trigger it now, or delete it.",
        ChangeCallScheduleArguments,
    ),
)
