"""Saved tasks, and schedules that start Actors and saved tasks."""

from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.apify import schemas
from outlast.workflows.tools.apify.answers import Handler, compact, failing_as, is_missing, smallest_that_fit, texts
from outlast.workflows.tools.core import schedules
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations, ToolBuilder

_PUBLIC = ("seoTitle", "seoDescription", "inputSchemaFields", "datasetName", "datasetView")
_OPTIONS = ("build", "timeoutSecs", "memoryMbytes")
_NAMED, _MAX_NAME_CHARS = 10, 100
"""Most fields that a sentence names, and most characters of each."""
_ONE_TASK = schemas.arguments({"taskId": schemas.TASK_ID}, required=("taskId",))


def no_task(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """Return the text for a task that does not exist."""
    return f"Task {unquoted(given['taskId'])} was not found." if is_missing(envelope) else None


@failing_as(lambda _given, _envelope: None)
async def create_actor_task(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Save the task once, also if attempts fail."""
    # Clients of that server find the input in the answer.
    return _task_answer(
        ctx, await schedules.create_saved_task(ctx, given["actorId"], changes_of(given), hidden=()), "Saved task"
    )


@failing_as(no_task)
async def get_actor_task(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the task."""
    return _task_answer(ctx, await schedules.saved_task(ctx, given["taskId"]), "Task")


@failing_as(no_task)
async def update_actor_task(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Change only the given fields."""
    return await _changed(ctx, given, changes_of(given), "Changed")


@failing_as(lambda _given, _envelope: None)
async def publish_actor_task(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Publish the page of the task."""
    return await _changed(ctx, given, {"isPublic": True}, "Published")


@failing_as(lambda _given, _envelope: None)
async def unpublish_actor_task(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Remove the public page of the task, and keep its configuration."""
    return await _changed(ctx, given, {"isPublic": False}, "Took the public page from")


async def _changed(ctx: HandlerContext, given: dict[str, Any], changes: JsonObject, done: str) -> ToolResult:
    # Clients of that server find the input in the answer.
    task = await schedules.change_saved_task(ctx, given["taskId"], changes, hidden=())
    return _task_answer(ctx, task, f"{done} task")


def _task_answer(ctx: HandlerContext, task: JsonObject, what: str) -> ToolResult:
    public = task.get("publicConfig")
    shown, left_out = shown_input(task.get("input"), ctx.call.output.inline_limit_bytes)
    structured: JsonObject = {
        "taskId": task.get("id"),
        "actorId": task.get("actId"),
        **{name: task.get(name) for name in ("name", "title", "description")},
        "publishedAt": task.get("publishedAt") or (public.get("publishedAt") if isinstance(public, dict) else None),
        "publicConfig": {name: public[name] for name in _PUBLIC if name in public}
        if isinstance(public, dict)
        else None,
        "input": shown,
    }
    sentence = f"{what} {task.get('name')} (taskId={task.get('id')})."
    return texts(structured, compact(structured), f"{sentence}{left_out}")


def _writing_task(
    name: str, title: str, does: str, handler: Handler, schema: JsonObject = _ONE_TASK, *, is_change: bool = True
) -> ToolBuilder:
    hints = ToolAnnotations(title=title, idempotent=is_change, open_world=False)
    definition = schemas.begun(name, Category.TASKS, hints, does=does, arguments=schema, answer=schemas.TASK)
    return definition.server(handler).seals("input")


CREATE_ACTOR_TASK = (
    _writing_task(
        "create-actor-task",
        "Create Actor task",
        "Save an Actor task: an Actor with an input and options under a name, to be run again or by a schedule. It "
        "runs nothing.",
        create_actor_task,
        schemas.arguments(
            {
                "actorId": schemas.required_text("The Actor: its id, `user/name`, or the name of one of your own."),
                **schemas.TASK_FIELDS,
            },
            required=("actorId",),
        ),
        is_change=False,
    )
    .plans(actors=("actorId",))
    .build()
)
GET_ACTOR_TASK = schemas.reading_tool(
    "get-actor-task",
    "Get Actor task",
    Category.TASKS,
    does="Get a saved Actor task: its Actor, its input, and whether it has a public page.",
    arguments=_ONE_TASK,
    answer=schemas.TASK,
    handler=get_actor_task,
)
UPDATE_ACTOR_TASK = _writing_task(
    "update-actor-task",
    "Update Actor task",
    "Change a saved Actor task: given fields replace the saved ones; the input is replaced as a whole.",
    update_actor_task,
    schemas.arguments({"taskId": schemas.TASK_ID, **schemas.TASK_FIELDS}, required=("taskId",)),
).build()
PUBLISH_ACTOR_TASK = _writing_task(
    "publish-actor-task",
    "Publish Actor task",
    "Give a saved Actor task a public page, as described by its publicConfig. Everybody can see the page: ask the "
    "user first.",
    publish_actor_task,
).build()
UNPUBLISH_ACTOR_TASK = _writing_task(
    "unpublish-actor-task",
    "Unpublish Actor task",
    "Remove the public page of a saved Actor task. Its publicConfig is kept.",
    unpublish_actor_task,
).build()
TASK_TOOLS = (CREATE_ACTOR_TASK, GET_ACTOR_TASK, UPDATE_ACTOR_TASK, PUBLISH_ACTOR_TASK, UNPUBLISH_ACTOR_TASK)


def shown_input(saved: JsonValue, limit_bytes: int) -> tuple[JsonValue, str]:
    """Return the part of a saved input that fits into an answer, and a sentence about what was left out."""
    size = len(compact(saved).encode())
    if size <= limit_bytes:
        return saved, ""
    note = f" An input of {size} bytes is too large for this answer"
    if not isinstance(saved, dict):
        return None, f"{note}, and left out."
    kept = smallest_that_fit(saved, limit_bytes)
    missing = [name[:_MAX_NAME_CHARS] for name in saved if name not in kept]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return kept, f"{note}: it is shown without {', '.join(missing[:_NAMED])}{more}. A change sends all of an input."


def changes_of(given: dict[str, Any]) -> JsonObject:
    """Return the given fields for a request to the platform."""
    changes: JsonObject = {
        name: given[name] for name in ("name", "title", "description", "input", "publicConfig") if name in given
    }
    options = {name: given[name] for name in _OPTIONS if name in given}
    return {**changes, "options": options} if options else changes


_TAKEN_OVER = ("name", "title", "description", "cronExpression", "timezone", "isEnabled", "isExclusive")
_SHOWN = (*_TAKEN_OVER, "nextRunAt", "lastRunAt", "createdAt", "modifiedAt")
_ONE = schemas.arguments({"scheduleId": schemas.SCHEDULE_ID}, required=("scheduleId",))


def _of_actions(_given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """Return the text about invalid actions, or about an Actor or task that does not exist."""
    return envelope.message if envelope.message.startswith(("Action ", "A schedule ", "Actor ", "Task ")) else None


def _of_change(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    return _of_actions(given, envelope) or _no_schedule(given, envelope)


def _no_schedule(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    return f"Schedule {unquoted(given['scheduleId'])} was not found." if is_missing(envelope) else None


@failing_as(_of_actions)
async def make_schedule(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Create the schedule once, also if attempts fail."""
    # Clients of that server find the inputs in the answer.
    made = await schedules.create_schedule(ctx, _fields(given), _runs(ctx, given) or (), hidden=())
    return _answer(ctx, made, "Made schedule")


@failing_as(_no_schedule)
async def get_schedule(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the schedule."""
    return _answer(ctx, await schedules.schedule(ctx, given["scheduleId"]), "Schedule")


@failing_as(_of_change)
async def update_schedule(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Change the given fields. Actions replace all earlier ones."""
    changed = await schedules.change_schedule(ctx, given["scheduleId"], _fields(given), _runs(ctx, given), hidden=())
    return _answer(ctx, changed, "Changed schedule")


@failing_as(_no_schedule)
async def remove_schedule(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Delete the schedule. Runs that it has started continue."""
    removed = await schedules.delete_schedule(ctx, given["scheduleId"])
    structured: JsonObject = {"scheduleId": removed.get("id"), "name": removed.get("name"), "deleted": True}
    return texts(structured, compact(structured), f"Removed schedule {removed.get('name')}. Its runs continue.")


def _fields(given: dict[str, Any]) -> JsonObject:
    return {name: given[name] for name in _TAKEN_OVER if name in given}


def _runs(ctx: HandlerContext, given: dict[str, Any]) -> list[schedules.ScheduledRun] | None:
    """Return the runs of the given actions; None without actions. Raises `ToolError` for invalid ones."""
    if "actions" not in given:
        return None
    runs = [_run(action) for action in given["actions"]]
    problem = _problem_of(runs)
    if problem is not None:
        raise ToolError(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, problem))
    return runs


def _problem_of(runs: Sequence[schedules.ScheduledRun]) -> str | None:
    for number, run in enumerate(runs, start=1):
        if run.actor and run.task:
            return f"Action {number} names both an Actor and a task: give one of them."
        if not run.actor and not run.task:
            return f"Action {number} names nothing to run: give actorId or taskId."
    for kind, count in (("Actors", sum(bool(run.actor) for run in runs)), ("tasks", sum(bool(r.task) for r in runs))):
        if count > schedules.MAX_OF_A_KIND:
            return f"A schedule runs at most {schedules.MAX_OF_A_KIND} {kind}; {count} were given."
    return None


def _run(action: dict[str, Any]) -> schedules.ScheduledRun:
    return schedules.ScheduledRun(
        actor=action.get("actorId") or None,
        task=action.get("taskId") or None,
        input=action.get("input"),
        has_input="input" in action,
        # A saved task has its own options. These are ignored then, as in that server.
        options={name: action[name] for name in schedules.OPTIONS if name in action and not action.get("taskId")},
    )


def _shown(run: schedules.ScheduledRun, shown: JsonValue) -> JsonObject:
    target: JsonObject = {"taskId": run.task} if run.task else {"actorId": run.actor}
    return {**target, "input": shown, **run.options} if run.has_input else {**target, **run.options}


def _answer(ctx: HandlerContext, found: JsonObject, done: str) -> ToolResult:
    structured: JsonObject = {"scheduleId": found.get("id"), **{name: found.get(name) for name in _SHOWN}}
    runs = schedules.as_read(found)
    share = ctx.call.output.inline_limit_bytes // max(1, len(runs))
    inputs = [shown_input(run.input, share) for run in runs]
    structured["actions"] = [_shown(run, shown) for run, (shown, _) in zip(runs, inputs, strict=True)]
    due = f"next at {found.get('nextRunAt')}" if found.get("nextRunAt") else "it is disabled"
    sentence = f"{done} {found.get('name')} (scheduleId={found.get('id')}); {due}."
    return texts(structured, compact(structured), "".join([sentence, *(left_out for _, left_out in inputs)]))


def _writing(name: str, title: str, does: str, handler: Handler, schema: JsonObject, *, is_change: bool) -> Tool:
    hints = ToolAnnotations(title=title, idempotent=is_change, open_world=False)
    return (
        schemas.begun(name, Category.SCHEDULES, hints, does=does, arguments=schema, answer=schemas.SCHEDULE)
        .server(handler)
        .seals("actions/*/input")
        .plans(actors=("actions/*/actorId",), tasks=("actions/*/taskId",))
        .build()
    )


CREATE_SCHEDULE = _writing(
    "create-schedule",
    "Create schedule",
    "Run Actors or saved tasks at the times of a cron expression. The account pays for each run: ask the user first.",
    make_schedule,
    schemas.arguments(schemas.NEW_SCHEDULE_FIELDS, required=("cronExpression", "actions")),
    is_change=False,
)
GET_SCHEDULE = schemas.reading_tool(
    "get-schedule",
    "Get schedule",
    Category.SCHEDULES,
    does="Get a schedule: its cron expression, what it runs, and its latest due time.",
    arguments=_ONE,
    answer=schemas.SCHEDULE,
    handler=get_schedule,
)
UPDATE_SCHEDULE = _writing(
    "update-schedule",
    "Update schedule",
    "Change a schedule: given fields replace the old ones; actions are replaced as a whole.",
    update_schedule,
    schemas.arguments({"scheduleId": schemas.SCHEDULE_ID, **schemas.SCHEDULE_FIELDS}, required=("scheduleId",)),
    is_change=True,
)
DELETE_SCHEDULE = (
    schemas.begun(
        "delete-schedule",
        Category.SCHEDULES,
        ToolAnnotations(title="Delete schedule", destructive=True, idempotent=True, open_world=False),
        does="Delete a schedule permanently. Runs that it started continue.",
        arguments=_ONE,
        answer=schemas.REMOVED_SCHEDULE,
    )
    .server(remove_schedule)
    .build()
)
SCHEDULE_TOOLS = (CREATE_SCHEDULE, GET_SCHEDULE, UPDATE_SCHEDULE, DELETE_SCHEDULE)
