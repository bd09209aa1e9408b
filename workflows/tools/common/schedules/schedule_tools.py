"""`create-schedule`, `get-schedule`, `update-schedule` and `delete-schedule`."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES, Answer, answered
from outlast.workflows.tools.answers.pieces import as_json
from outlast.workflows.tools.common.schedules.arguments import (
    CreateScheduleArguments,
    ScheduleArguments,
    UpdateScheduleArguments,
)
from outlast.workflows.tools.common.schedules.views import (
    ScheduleView,
    describe_actions,
    describe_due,
    schedule_view,
)
from outlast.workflows.tools.core import schedules
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, ToolBuilder, tool

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
