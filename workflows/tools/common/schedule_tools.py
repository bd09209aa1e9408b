"""Tools for schedules: `create-schedule`, `get-schedule`, `update-schedule` and `delete-schedule`."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue, StringConstraints

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, Answer, answered, as_json
from outlast.workflows.tools.core import schedules
from outlast.workflows.tools.core.saved_tasks import SavedOptions
from outlast.workflows.tools.core.schedules import ArgumentNames, ScheduledRun, as_read
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolAnnotations, ToolBuilder, tool

_NAMES = ArgumentNames("actor", "actorTaskId")
_Name = Annotated[str, StringConstraints(min_length=3, max_length=63)]
_Title = Annotated[str, StringConstraints(max_length=40)]
_Description = Annotated[str, StringConstraints(max_length=5_000)]
Cron = Annotated[str, StringConstraints(min_length=1, max_length=100)]
_CRON = (
    "When it comes due: minute, hour, day, month, weekday, for example `0 9 * * 1-5`; or @hourly, @daily, @weekly, "
    "@monthly, @yearly."
)
_ACTIONS = "What it runs, each time all of it."


class Action(Arguments):
    """One Actor or one saved task that a schedule runs."""

    actor: Id | None = Field(
        default=None, description="Actor to run: `user/name`, its id, or the name of one of your own. Or actorTaskId."
    )
    actor_task_id: Id | None = Field(
        default=None,
        alias="actorTaskId",
        description="Saved task to run: its id, `user/name`, or the name of one of your own.",
    )
    input: dict[str, JsonValue] | None = Field(
        default=None, description="Input of the Actor; of a saved task the fields that take the place of saved ones."
    )
    call_options: SavedOptions | None = Field(
        default=None, alias="callOptions", description="With actor: how it is run. A saved task has its own options."
    )
    restart_on_error: bool | None = Field(
        default=None, alias="restartOnError", description="With actor: start a run that fails again."
    )

    def as_run(self) -> ScheduledRun:
        """What it runs."""
        options: JsonObject = self.call_options.as_sent() if self.call_options else {}
        if self.restart_on_error is not None:
            options["restartOnError"] = self.restart_on_error
        return ScheduledRun(
            actor=self.actor,
            task=self.actor_task_id,
            input=self.input,
            has_input=self.input is not None,
            options=options,
            names=_NAMES,
        )


class ScheduleArguments(Arguments):
    """Names a schedule."""

    schedule_id: Id = Field(
        alias="scheduleId", description="Schedule: its id, `user/name`, or the name of one of your own."
    )


class ScheduleFields(Arguments):
    """Properties of a schedule, apart from its times and its actions."""

    name: _Name | None = Field(default=None, description="Letters, digits and inner hyphens.")
    title: _Title | None = Field(default=None, description="What people see instead of the name.")
    description: _Description | None = Field(default=None, description="What it is for.")
    timezone: Id | None = Field(default=None, description="By which clock, such as Europe/Prague; UTC without it.")
    is_exclusive: bool | None = Field(
        default=None,
        alias="isExclusive",
        description="Start nothing while what it started before still runs. A new schedule does so without it.",
    )

    def as_sent(self) -> JsonObject:
        """The fields that were given, as the platform's API has them, without actions."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude={"actions", "schedule_id"})


class CreateScheduleArguments(ScheduleFields):
    """A new schedule."""

    cron_expression: Cron = Field(alias="cronExpression", description=_CRON)
    actions: list[Action] = Field(min_length=1, max_length=20, description=_ACTIONS)
    is_enabled: bool = Field(default=True, alias="isEnabled", description="Whether it comes due at all.")


class UpdateScheduleArguments(ScheduleArguments, ScheduleFields):
    """Which schedule, and what of it is changed."""

    cron_expression: Cron | None = Field(default=None, alias="cronExpression", description=_CRON)
    actions: list[Action] | None = Field(
        default=None, min_length=1, max_length=20, description=f"{_ACTIONS} They take the place of all that there were."
    )
    is_enabled: bool | None = Field(default=None, alias="isEnabled", description="Whether it comes due at all.")


class ActionView(Answer):
    """One Actor or one saved task that a schedule runs."""

    actor_id: str | None = None
    actor_task_id: str | None = None
    input: JsonValue = Field(default=None, description="Left out in lists, and where a change is answered.")
    call_options: dict[str, JsonValue] | None = None
    restart_on_error: bool | None = None


class ScheduleView(Answer):
    """A schedule."""

    schedule_id: str
    name: str
    title: str | None = None
    description: str | None = None
    cron_expression: str
    timezone: str
    is_enabled: bool
    is_exclusive: bool
    next_run_at: datetime | None = Field(default=None, description="When it comes due next; absent while it is off.")
    last_run_at: datetime | None = None
    created_at: datetime | None = None
    modified_at: datetime | None = None
    actions: list[ActionView]


_INPUTS = "actions/*/input"
_PLANNED = {"actors": ("actions/*/actor",), "tasks": ("actions/*/actorTaskId",)}


class DeletedSchedule(Answer):
    """What was removed."""

    schedule_id: str
    name: str
    deleted: bool = True


async def create_schedule(ctx: ToolContext, arguments: CreateScheduleArguments) -> ToolResult:
    """Make it once, whatever fails in between."""
    runs = [action.as_run() for action in arguments.actions]
    made = schedule_view(await schedules.create_schedule(ctx, arguments.as_sent(), runs))
    return answered(
        made, f"Made schedule {made.name} as {made.schedule_id}.", describe_due(made), describe_actions(made)
    )


async def get_schedule(ctx: ToolContext, arguments: ScheduleArguments) -> ToolResult:
    """The schedule as it is, with the inputs of what it runs."""
    found = schedule_view(await schedules.schedule(ctx, arguments.schedule_id), with_inputs=True)
    inputs = [as_json(action.input) for action in found.actions if action.input is not None]
    last = f"It came due last at {found.last_run_at:%Y-%m-%d %H:%M:%S} UTC." if found.last_run_at else None
    return answered(
        found,
        f"Schedule {found.name} ({found.schedule_id}).",
        describe_due(found),
        last,
        describe_actions(found),
        *(f"Input: {text}" for text in inputs),
    )


async def update_schedule(ctx: ToolContext, arguments: UpdateScheduleArguments) -> ToolResult:
    """Change what was given; actions take the place of all that there were."""
    runs = [action.as_run() for action in arguments.actions] if arguments.actions is not None else None
    changed = schedule_view(await schedules.change_schedule(ctx, arguments.schedule_id, arguments.as_sent(), runs))
    return answered(changed, f"Changed schedule {changed.name}.", describe_due(changed), describe_actions(changed))


async def delete_schedule(ctx: ToolContext, arguments: ScheduleArguments) -> ToolResult:
    """Remove it; what it has started goes on."""
    removed = await schedules.delete_schedule(ctx, arguments.schedule_id)
    deleted = DeletedSchedule(schedule_id=str(removed.get("id")), name=str(removed.get("name")))
    return answered(deleted, f"Deleted schedule {deleted.name}. What it has started goes on.")


def _begun(
    name: str, does: str, hints: ToolAnnotations, arguments: type[ScheduleArguments | CreateScheduleArguments]
) -> ToolBuilder:
    return (
        tool(name)
        .category(Category.SCHEDULES)
        .describe(does)
        .annotate(hints)
        .args(arguments)
        .output_threshold(MAX_ANSWER_BYTES)
    )


CREATE_SCHEDULE = (
    _begun(
        "create-schedule",
        "Have the platform run Actors or saved tasks at times of a cron expression. Each run is paid by the account: "
        "ask the user first.",
        ToolAnnotations(title="Create schedule", open_world=False),
        CreateScheduleArguments,
    )
    .output(ScheduleView)
    .server(create_schedule)
    .seals(_INPUTS)
    .plans(**_PLANNED)
    .build()
)
GET_SCHEDULE = (
    _begun(
        "get-schedule",
        "Get a schedule: when it comes due, what it runs with which input, and when it did last.",
        ToolAnnotations(title="Get schedule", read_only=True, idempotent=True, open_world=False),
        ScheduleArguments,
    )
    .output(ScheduleView)
    .server(get_schedule)
    .build()
)
UPDATE_SCHEDULE = (
    _begun(
        "update-schedule",
        "Change a schedule, or switch it on or off: fields that you give take the place of what was there.",
        ToolAnnotations(title="Update schedule", idempotent=True, open_world=False),
        UpdateScheduleArguments,
    )
    .output(ScheduleView)
    .server(update_schedule)
    .seals(_INPUTS)
    .plans(**_PLANNED)
    .build()
)
DELETE_SCHEDULE = (
    _begun(
        "delete-schedule",
        "Delete a schedule for good: nothing of it comes due any more. What it has started goes on.",
        ToolAnnotations(title="Delete schedule", destructive=True, idempotent=True, open_world=False),
        ScheduleArguments,
    )
    .output(DeletedSchedule)
    .server(delete_schedule)
    .build()
)


def schedule_view(schedule: JsonObject, *, with_inputs: bool = False) -> ScheduleView:
    """The platform's object of a schedule."""
    fields: dict[str, Any] = {
        **schedule,
        "scheduleId": schedule.get("id"),
        "actions": [_action(run, with_input=with_inputs) for run in as_read(schedule)],
    }
    return ScheduleView.model_validate(fields)


def describe_due(schedule: ScheduleView) -> str:
    """Sentence about the next time at which the schedule is due."""
    if schedule.next_run_at is None:
        return f"It is off; switched on it comes due at `{schedule.cron_expression}` ({schedule.timezone})."
    return f"It comes due next at {schedule.next_run_at:%Y-%m-%d %H:%M:%S} UTC (`{schedule.cron_expression}`)."


def describe_actions(schedule: ScheduleView) -> str:
    """Sentence about the actions of the schedule."""
    runs = [
        f"saved task {one.actor_task_id}" if one.actor_task_id else f"Actor {one.actor_id}" for one in schedule.actions
    ]
    return f"It runs {', '.join(runs)}." if runs else "It runs nothing."


def _action(run: ScheduledRun, *, with_input: bool) -> ActionView:
    options = SavedOptions.read(run.options)
    restarts = run.options.get("restartOnError")
    return ActionView(
        actor_id=run.actor,
        actor_task_id=run.task,
        input=run.input if with_input else None,
        call_options=options.model_dump(exclude_none=True) if options else None,
        restart_on_error=restarts if isinstance(restarts, bool) else None,
    )
