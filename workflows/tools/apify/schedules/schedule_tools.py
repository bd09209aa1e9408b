"""`create-schedule`, `get-schedule`, `update-schedule` and `delete-schedule`."""

import hashlib
from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.apify.answers.blocks import compact, texts
from outlast.workflows.tools.apify.answers.failures import failing_as, is_missing
from outlast.workflows.tools.apify.definition import begun, reading_tool
from outlast.workflows.tools.apify.references import platform_reference
from outlast.workflows.tools.apify.schedules.actions import INPUT_TEXTS, as_sent, as_shown, problem_of
from outlast.workflows.tools.apify.schemas.build import arguments
from outlast.workflows.tools.apify.schemas.schedules import FIELDS, NEW_FIELDS, REMOVED, SCHEDULE, SCHEDULE_ID
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

COLLECTION = "schedules"
_DIGEST_CHARS = 8
_TAKEN_OVER = ("name", "title", "description", "cronExpression", "timezone", "isEnabled", "isExclusive")
_SHOWN = {
    "scheduleId": "id",
    "name": "name",
    "title": "title",
    "description": "description",
    "cronExpression": "cronExpression",
    "timezone": "timezone",
    "isEnabled": "isEnabled",
    "isExclusive": "isExclusive",
    "nextRunAt": "nextRunAt",
    "lastRunAt": "lastRunAt",
    "createdAt": "createdAt",
    "modifiedAt": "modifiedAt",
}
_ONE = arguments({"scheduleId": SCHEDULE_ID}, required=("scheduleId",))


def _no_schedule(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    return f"Schedule {unquoted(given['scheduleId'])} was not found." if is_missing(envelope) else None


@failing_as(lambda _given, _envelope: None)
async def create_schedule(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Make it once, whatever fails in between. A name of its own is the same in every attempt."""
    _refuse_uncounted(ctx)
    me = await ctx.platform.get("users", "me")
    digest = hashlib.sha256(ctx.task_id.encode()).hexdigest()[:_DIGEST_CHARS]
    defaults: JsonObject = {"name": f"schedule-{digest}", "timezone": "UTC", "isEnabled": True, "isExclusive": True}
    body = {**defaults, **await _changes(ctx, given)}
    schedule = await ctx.platform_writes.create(
        COLLECTION, body, found_at=f"{me.get('username')}~{body['name']}", texts=INPUT_TEXTS
    )
    return _answer(schedule, "Made schedule")


@failing_as(_no_schedule)
async def get_schedule(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The schedule as it is."""
    return _answer(await ctx.platform.get(COLLECTION, await platform_reference(ctx, given["scheduleId"])), "Schedule")


@failing_as(_no_schedule)
async def update_schedule(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Change what was given; actions take the place of all that there were."""
    if given.get("isEnabled") or any(name in given for name in ("cronExpression", "actions")):
        _refuse_uncounted(ctx)
    reference, changes = await platform_reference(ctx, given["scheduleId"]), await _changes(ctx, given)
    schedule = await ctx.platform_writes.update(COLLECTION, reference, changes, texts=INPUT_TEXTS)
    return _answer(schedule, "Changed schedule")


@failing_as(_no_schedule)
async def delete_schedule(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Remove it; what it has started goes on."""
    schedule = await ctx.platform.get(COLLECTION, await platform_reference(ctx, given["scheduleId"]))
    await ctx.platform_writes.delete(COLLECTION, str(schedule.get("id")))
    structured: JsonObject = {"scheduleId": schedule.get("id"), "name": schedule.get("name"), "deleted": True}
    return texts(structured, compact(structured), f"Removed schedule {schedule.get('name')}. Its runs go on.")


async def _changes(ctx: ToolContext, given: dict[str, Any]) -> JsonObject:
    """The fields of a request to the platform. Raises `ToolError` for actions that it would refuse."""
    changes: JsonObject = {name: given[name] for name in _TAKEN_OVER if name in given}
    if "actions" not in given:
        return changes
    problem = problem_of(given["actions"])
    if problem is not None:
        raise ToolError(_refused(ctx, problem))
    return {**changes, "actions": [as_sent(action, await _target(ctx, action)) for action in given["actions"]]}


async def _target(ctx: ToolContext, action: dict[str, Any]) -> str:
    """The id of the Actor or of the task that an action runs."""
    collection, written = ("actor-tasks", action["taskId"]) if action.get("taskId") else ("acts", action["actorId"])
    return str((await ctx.platform.get(collection, await platform_reference(ctx, written))).get("id"))


def _refuse_uncounted(ctx: ToolContext) -> None:
    """Raise `ToolError` for a caller with caps: what the platform starts at its own times is in no ledger of ours."""
    if ctx.call.caps is not None:
        message = "You have spending caps, and what a schedule starts counts for none of them. Nothing was changed."
        hint = "Ask the operator of this server to make the schedule, or run the Actor with call-actor."
        raise ToolError(ErrorEnvelope.permanent(ErrorCategory.PAYMENT, ctx.call.tool, message, hint=hint))


def _refused(ctx: ToolContext, problem: str) -> ErrorEnvelope:
    path, _, message = problem.partition(": ")
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        ctx.call.tool,
        f"The actions do not fit. {problem}",
        violations=(Violation(path=path, message=message),),
    )


def _answer(schedule: JsonObject, done: str) -> ToolResult:
    actions = schedule.get("actions")
    shown = [as_shown(action) for action in actions if isinstance(action, dict)] if isinstance(actions, list) else []
    structured: JsonObject = {name: schedule.get(field) for name, field in _SHOWN.items()}
    structured["actions"] = [*shown]
    due = f"next at {schedule.get('nextRunAt')}" if schedule.get("nextRunAt") else "it is off"
    sentence = f"{done} {schedule.get('name')} (scheduleId={schedule.get('id')}); {due}."
    return texts(structured, compact(structured), sentence)


CREATE_SCHEDULE = (
    begun(
        "create-schedule",
        Category.SCHEDULES,
        ToolAnnotations(title="Create schedule", idempotent=False, open_world=False),
        does="Have Actors or saved tasks run at times of a cron expression. Each run is paid by the account: ask the "
        "user first.",
        arguments=arguments(NEW_FIELDS, required=("cronExpression", "actions")),
        answer=SCHEDULE,
    )
    .server(create_schedule)
    .seals("actions/*/input")
    .plans(actors=("actions/*/actorId",), tasks=("actions/*/taskId",))
    .build()
)
GET_SCHEDULE = reading_tool(
    "get-schedule",
    "Get schedule",
    Category.SCHEDULES,
    does="Get a schedule: when it comes due, what it runs, and when it did last.",
    arguments=_ONE,
    answer=SCHEDULE,
    handler=get_schedule,
)
UPDATE_SCHEDULE = (
    begun(
        "update-schedule",
        Category.SCHEDULES,
        ToolAnnotations(title="Update schedule", idempotent=True, open_world=False),
        does="Change a schedule: fields that you give take the place of what was there, actions all at once.",
        arguments=arguments({"scheduleId": SCHEDULE_ID, **FIELDS}, required=("scheduleId",)),
        answer=SCHEDULE,
    )
    .server(update_schedule)
    .seals("actions/*/input")
    .plans(actors=("actions/*/actorId",), tasks=("actions/*/taskId",))
    .build()
)
DELETE_SCHEDULE = (
    begun(
        "delete-schedule",
        Category.SCHEDULES,
        ToolAnnotations(title="Delete schedule", destructive=True, idempotent=True, open_world=False),
        does="Remove a schedule for good: nothing of it comes due any more. What it has started goes on.",
        arguments=_ONE,
        answer=REMOVED,
    )
    .server(delete_schedule)
    .build()
)
