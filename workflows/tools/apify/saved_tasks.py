"""Tools for saved Actor tasks: create, get, update, publish, unpublish."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.apify.answers import Handler, compact, failing_as, is_missing, smallest_that_fit, texts
from outlast.workflows.tools.apify.schemas import (
    TASK,
    TASK_FIELDS,
    TASK_ID,
    arguments,
    begun,
    reading_tool,
    required_text,
)
from outlast.workflows.tools.core.saved_tasks import change_saved_task, create_saved_task, saved_task
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, ToolBuilder

_PUBLIC = ("seoTitle", "seoDescription", "inputSchemaFields", "datasetName", "datasetView")
_OPTIONS = ("build", "timeoutSecs", "memoryMbytes")
_NAMED, _MAX_NAME_CHARS = 10, 100
"""Most fields that a sentence names, and most characters of each."""
_ONE = arguments({"taskId": TASK_ID}, required=("taskId",))


def no_task(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """Return the text for a task that does not exist."""
    return f"Task {unquoted(given['taskId'])} was not found." if is_missing(envelope) else None


@failing_as(lambda _given, _envelope: None)
async def create_actor_task(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Save the task once, also if attempts fail."""
    # Clients of that server find the input in the answer.
    return _answer(ctx, await create_saved_task(ctx, given["actorId"], changes_of(given), hidden=()), "Saved task")


@failing_as(no_task)
async def get_actor_task(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the task."""
    return _answer(ctx, await saved_task(ctx, given["taskId"]), "Task")


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
    task = await change_saved_task(ctx, given["taskId"], changes, hidden=())
    return _answer(ctx, task, f"{done} task")


def _answer(ctx: HandlerContext, task: JsonObject, what: str) -> ToolResult:
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


def _writing(
    name: str, title: str, does: str, handler: Handler, schema: JsonObject = _ONE, *, is_change: bool = True
) -> ToolBuilder:
    hints = ToolAnnotations(title=title, idempotent=is_change, open_world=False)
    definition = begun(name, Category.TASKS, hints, does=does, arguments=schema, answer=TASK)
    return definition.server(handler).seals("input")


CREATE_ACTOR_TASK = (
    _writing(
        "create-actor-task",
        "Create Actor task",
        "Save an Actor task: an Actor with an input and options under a name, to be run again or by a schedule. It "
        "runs nothing.",
        create_actor_task,
        arguments(
            {
                "actorId": required_text("The Actor: its id, `user/name`, or the name of one of your own."),
                **TASK_FIELDS,
            },
            required=("actorId",),
        ),
        is_change=False,
    )
    .plans(actors=("actorId",))
    .build()
)
GET_ACTOR_TASK = reading_tool(
    "get-actor-task",
    "Get Actor task",
    Category.TASKS,
    does="Get a saved Actor task: its Actor, its input, and whether it has a public page.",
    arguments=_ONE,
    answer=TASK,
    handler=get_actor_task,
)
UPDATE_ACTOR_TASK = _writing(
    "update-actor-task",
    "Update Actor task",
    "Change a saved Actor task: fields that you give take the place of what was saved, the input as a whole.",
    update_actor_task,
    arguments({"taskId": TASK_ID, **TASK_FIELDS}, required=("taskId",)),
).build()
PUBLISH_ACTOR_TASK = _writing(
    "publish-actor-task",
    "Publish Actor task",
    "Give a saved Actor task a public page, as its publicConfig describes it. Everybody can see it then: ask the user "
    "first.",
    publish_actor_task,
).build()
UNPUBLISH_ACTOR_TASK = _writing(
    "unpublish-actor-task",
    "Unpublish Actor task",
    "Take the public page of a saved Actor task away. Its publicConfig is kept.",
    unpublish_actor_task,
).build()
TOOLS = (CREATE_ACTOR_TASK, GET_ACTOR_TASK, UPDATE_ACTOR_TASK, PUBLISH_ACTOR_TASK, UNPUBLISH_ACTOR_TASK)


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
