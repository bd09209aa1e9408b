"""Tools for schedules of the platform: create, get, list, update and delete."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue, StringConstraints

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, as_json
from outlast.workflows.tools.core import lists, schedules
from outlast.workflows.tools.core.schedules import ArgumentNames, SavedOptions, ScheduledRun, as_read
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolAnnotations, limited_tool, reads

_NAMES = ArgumentNames("actor", "actorTaskId")
_Name = Annotated[str, StringConstraints(min_length=3, max_length=63)]
_Title = Annotated[str, StringConstraints(max_length=40)]
_Description = Annotated[str, StringConstraints(max_length=5_000)]
Cron = Annotated[str, StringConstraints(min_length=1, max_length=100)]
_CRON = (
    "Cron expression: minute, hour, day, month, weekday, for example `0 9 * * 1-5`; or @hourly, @daily, @weekly, "
    "@monthly, @yearly."
)
_ACTIONS = "What it runs at each due time: all of it."


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
        default=None, description="Input of the Actor; for a saved task, fields that replace saved ones."
    )
    call_options: SavedOptions | None = Field(
        default=None, alias="callOptions", description="With actor: how it is run. A saved task has its own options."
    )
    restart_on_error: bool | None = Field(
        default=None, alias="restartOnError", description="With actor: start a failed run again."
    )

    def as_run(self) -> ScheduledRun:
        """Return the run of this action."""
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
    """A schedule."""

    schedule_id: Id = Field(
        alias="scheduleId", description="Schedule: its id, `user/name`, or the name of one of your own."
    )


class ScheduleFields(Arguments):
    """Properties of a schedule, apart from its times and its actions."""

    name: _Name | None = Field(default=None, description="Letters, digits and hyphens between them.")
    title: _Title | None = Field(default=None, description="Displayed instead of the name.")
    description: _Description | None = Field(default=None, description="What it is for.")
    timezone: Id | None = Field(default=None, description="Time zone, such as Europe/Prague. Default: UTC.")
    is_exclusive: bool | None = Field(
        default=None,
        alias="isExclusive",
        description="Start nothing while an earlier run of it is open. Default for a new schedule: true.",
    )

    def as_sent(self) -> JsonObject:
        """Return the given fields for the platform's API, without actions."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude={"actions", "schedule_id"})


class CreateScheduleArguments(ScheduleFields):
    """A new schedule."""

    cron_expression: Cron = Field(alias="cronExpression", description=_CRON)
    actions: list[Action] = Field(min_length=1, max_length=20, description=_ACTIONS)
    is_enabled: bool = Field(default=True, alias="isEnabled", description="Whether it is enabled.")


class UpdateScheduleArguments(ScheduleArguments, ScheduleFields):
    """A schedule, and its new properties."""

    cron_expression: Cron | None = Field(default=None, alias="cronExpression", description=_CRON)
    actions: list[Action] | None = Field(
        default=None, min_length=1, max_length=20, description=f"{_ACTIONS} They replace all earlier ones."
    )
    is_enabled: bool | None = Field(default=None, alias="isEnabled", description="Whether it is enabled.")


class ActionView(Answer):
    """One Actor or one saved task that a schedule runs."""

    actor_id: str | None = None
    actor_task_id: str | None = None
    input: JsonValue = Field(default=None, description="Absent in lists, and in the answer to a change.")
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
    next_run_at: datetime | None = Field(default=None, description="Next due time; absent while it is disabled.")
    last_run_at: datetime | None = None
    created_at: datetime | None = None
    modified_at: datetime | None = None
    actions: list[ActionView]


class DeletedSchedule(Answer):
    """A deleted schedule."""

    schedule_id: str
    name: str
    deleted: bool = True


async def create_schedule(ctx: HandlerContext, arguments: CreateScheduleArguments) -> ToolResult:
    """Create the schedule once, also if attempts fail."""
    runs = [action.as_run() for action in arguments.actions]
    made = schedule_view(await schedules.create_schedule(ctx, arguments.as_sent(), runs))
    return answered(
        made, f"Made schedule {made.name} as {made.schedule_id}.", describe_due(made), describe_actions(made)
    )


async def get_schedule(ctx: HandlerContext, arguments: ScheduleArguments) -> ToolResult:
    """Return the schedule with the inputs of its runs."""
    found = schedule_view(await schedules.schedule(ctx, arguments.schedule_id), with_inputs=True)
    inputs = [as_json(action.input) for action in found.actions if action.input is not None]
    last = f"It was last due at {found.last_run_at:%Y-%m-%d %H:%M:%S} UTC." if found.last_run_at else None
    return answered(
        found,
        f"Schedule {found.name} ({found.schedule_id}).",
        describe_due(found),
        last,
        describe_actions(found),
        *(f"Input: {text}" for text in inputs),
    )


async def update_schedule(ctx: HandlerContext, arguments: UpdateScheduleArguments) -> ToolResult:
    """Change the given fields. Actions replace all earlier ones."""
    runs = [action.as_run() for action in arguments.actions] if arguments.actions is not None else None
    changed = schedule_view(await schedules.change_schedule(ctx, arguments.schedule_id, arguments.as_sent(), runs))
    return answered(changed, f"Changed schedule {changed.name}.", describe_due(changed), describe_actions(changed))


async def delete_schedule(ctx: HandlerContext, arguments: ScheduleArguments) -> ToolResult:
    """Delete the schedule. Runs that it has started continue."""
    removed = await schedules.delete_schedule(ctx, arguments.schedule_id)
    deleted = DeletedSchedule(schedule_id=str(removed.get("id")), name=str(removed.get("name")))
    return answered(deleted, f"Deleted schedule {deleted.name}. Runs that it started continue.")


def _writing(
    name: str,
    title: str,
    does: str,
    handler: Callable[[HandlerContext, Any], Awaitable[ToolResult]],
    arguments: type[CreateScheduleArguments | UpdateScheduleArguments],
) -> Tool:
    hints = ToolAnnotations(title=title, idempotent=name == "update-schedule", open_world=False)
    builder = limited_tool(name, Category.SCHEDULES, hints, does, handler, arguments, ScheduleView)
    planned = {"actors": ("actions/*/actor",), "tasks": ("actions/*/actorTaskId",)}
    return builder.seals("actions/*/input").plans(**planned).build()


CREATE_SCHEDULE = _writing(
    "create-schedule",
    "Create schedule",
    "Let the platform run Actors or saved tasks at the times of a cron expression. The account pays for each run: "
    "ask the user first.",
    create_schedule,
    CreateScheduleArguments,
)
GET_SCHEDULE = limited_tool(
    "get-schedule",
    Category.SCHEDULES,
    reads("Get schedule"),
    "Get a schedule: its cron expression, what it runs with which input, and its latest due time.",
    get_schedule,
    ScheduleArguments,
    ScheduleView,
).build()
UPDATE_SCHEDULE = _writing(
    "update-schedule",
    "Update schedule",
    "Change a schedule, or enable or disable it: given fields replace the old ones.",
    update_schedule,
    UpdateScheduleArguments,
)
DELETE_SCHEDULE = limited_tool(
    "delete-schedule",
    Category.SCHEDULES,
    ToolAnnotations(title="Delete schedule", destructive=True, idempotent=True, open_world=False),
    "Delete a schedule permanently. Runs that it started continue.",
    delete_schedule,
    ScheduleArguments,
    DeletedSchedule,
).build()


def schedule_view(schedule: JsonObject, *, with_inputs: bool = False) -> ScheduleView:
    """Return the answer for the platform's object of a schedule."""
    actions = [_action(run, with_input=with_inputs) for run in as_read(schedule)]
    return ScheduleView.model_validate({**schedule, "scheduleId": schedule.get("id"), "actions": actions})


def describe_due(schedule: ScheduleView) -> str:
    """Return a sentence about the next time at which the schedule is due."""
    if schedule.next_run_at is None:
        return f"It is disabled; when enabled, it is due at `{schedule.cron_expression}` ({schedule.timezone})."
    return f"It is due next at {schedule.next_run_at:%Y-%m-%d %H:%M:%S} UTC (`{schedule.cron_expression}`)."


def describe_actions(schedule: ScheduleView) -> str:
    """Return a sentence about the actions of the schedule."""
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


class ScheduleList(lists.ListPage):
    """A page of schedules."""

    schedules: list[ScheduleView]


async def list_schedules(ctx: HandlerContext, arguments: lists.NewestFirstArguments) -> lists.Listed:
    """Read a page of schedules."""
    page = await lists.platform_page(ctx, schedules.SCHEDULES, arguments)
    found = [schedule_view(entry) for entry in lists.entries_of(page)]
    return lists.Listed(found, [_line(one) for one in found], lists.total_of(page), arguments.offset)


def _line(schedule: ScheduleView) -> str:
    due = f"next at {schedule.next_run_at:%Y-%m-%d %H:%M:%S} UTC" if schedule.next_run_at else "off"
    return f"- {schedule.schedule_id} ({schedule.name}): `{schedule.cron_expression}` {schedule.timezone}, {due}"


GET_SCHEDULE_LIST = lists.ListTool(
    name="get-schedule-list",
    category=Category.SCHEDULES,
    title="Get schedule list",
    description="List schedules of the authenticated user, newest first. Use it to find one and its id.",
    arguments=lists.NewestFirstArguments,
    answer=ScheduleList,
    entries="schedules",
    read=list_schedules,
).build()
SCHEDULE_TOOLS = (CREATE_SCHEDULE, GET_SCHEDULE, GET_SCHEDULE_LIST, UPDATE_SCHEDULE, DELETE_SCHEDULE)
