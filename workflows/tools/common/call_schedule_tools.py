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
        default_factory=dict, description="Arguments of the tool; of a saved call, those that go over its own."
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
        default="UTC", max_length=100, alias="timeZone", description="Of the cron expression, as Europe/Prague."
    )
    overlap: Overlap = Field(default="skip", description="When it is due while an earlier call is under way.")
    budget_usd: Usd | None = Field(
        default=None,
        alias="budgetUsd",
        description="Most that all its calls may cost together, in US dollars. Then it is paused.",
    )
    note: str | None = Field(default=None, max_length=500, description="What it is for, for people.")
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
        "Have a tool called whenever it is due: by a cron expression in a time zone, or at intervals. The call is "
        "checked now, and judged again each time. It goes on without this conversation, and may cost money each time: "
        "set `budgetUsd`. The same schedule again changes nothing.",
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
        "Get a schedule of calls with its next times and what came of its latest calls: status, task, cost and error.",
        CallScheduleArguments,
    ),
    front_door_tool(
        "change-call-schedule",
        Category.CALL_SCHEDULES,
        ToolAnnotations(title="Change call schedule", destructive=True),
        "Pause a schedule of calls, resume it, have it due now, or delete it.",
        ChangeCallScheduleArguments,
    ),
)
