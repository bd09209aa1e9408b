"""Tools for saved Actor tasks: create, get, update, publish, unpublish."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
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
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations

_PUBLIC = ("seoTitle", "seoDescription", "inputSchemaFields", "datasetName", "datasetView")
_OPTIONS = ("build", "timeoutSecs", "memoryMbytes")
_NAMED, _MAX_NAME_CHARS = 10, 100
"""Fields that a sentence names, and how far."""
_ONE = arguments({"taskId": TASK_ID}, required=("taskId",))


def no_task(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """The text for a task that does not exist."""
    return f"Task {unquoted(given['taskId'])} was not found." if is_missing(envelope) else None


_CREATE_ACTOR_TASK_DESCRIPTION = """
Save an Actor task: an Actor with an input and options under a name, to be run again or by a schedule. It runs nothing.
"""


@failing_as(lambda _given, _envelope: None)
async def create_actor_task(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Save it once, whatever fails in between."""
    # Clients of that server find the input in the answer.
    task = await create_saved_task(ctx, given["actorId"], changes_of(given), hidden=())
    sentence = f"Saved task {task.get('name')} (taskId={task.get('id')})."
    return task_answer(task, sentence, limit_bytes=ctx.call.output.inline_limit_bytes)


CREATE_ACTOR_TASK = (
    begun(
        "create-actor-task",
        Category.TASKS,
        ToolAnnotations(title="Create Actor task", idempotent=False, open_world=False),
        does=_CREATE_ACTOR_TASK_DESCRIPTION,
        arguments=arguments(
            {
                "actorId": required_text("The Actor: its id, `user/name`, or the name of one of your own."),
                **TASK_FIELDS,
            },
            required=("actorId",),
        ),
        answer=TASK,
    )
    .server(create_actor_task)
    .seals("input")
    .plans(actors=("actorId",))
    .build()
)


@failing_as(no_task)
async def get_actor_task(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The task as it is."""
    task = await saved_task(ctx, given["taskId"])
    return _answer(ctx, task, "Task")


@failing_as(no_task)
async def update_actor_task(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Change what was given, and nothing else."""
    return await _changed(ctx, given, changes_of(given), "Changed")


@failing_as(lambda _given, _envelope: None)
async def publish_actor_task(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Give it its public page."""
    return await _changed(ctx, given, {"isPublic": True}, "Published")


@failing_as(lambda _given, _envelope: None)
async def unpublish_actor_task(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Take its public page away; what the page showed is kept."""
    return await _changed(ctx, given, {"isPublic": False}, "Took the public page from")


async def _changed(ctx: ToolContext, given: dict[str, Any], changes: JsonObject, done: str) -> ToolResult:
    # Clients of that server find the input in the answer.
    task = await change_saved_task(ctx, given["taskId"], changes, hidden=())
    return _answer(ctx, task, f"{done} task")


def _answer(ctx: ToolContext, task: JsonObject, what: str) -> ToolResult:
    sentence = f"{what} {task.get('name')} (taskId={task.get('id')})."
    return task_answer(task, sentence, limit_bytes=ctx.call.output.inline_limit_bytes)


def _changing(name: str, title: str, does: str, handler: Handler, schema: JsonObject = _ONE) -> Tool:
    hints = ToolAnnotations(title=title, idempotent=True, open_world=False)
    definition = begun(name, Category.TASKS, hints, does=does, arguments=schema, answer=TASK)
    return definition.server(handler).seals("input").build()


GET_ACTOR_TASK = reading_tool(
    "get-actor-task",
    "Get Actor task",
    Category.TASKS,
    does="Get a saved Actor task: its Actor, its input, and whether it has a public page.",
    arguments=_ONE,
    answer=TASK,
    handler=get_actor_task,
)
UPDATE_ACTOR_TASK = _changing(
    "update-actor-task",
    "Update Actor task",
    "Change a saved Actor task: fields that you give take the place of what was saved, the input as a whole.",
    update_actor_task,
    arguments({"taskId": TASK_ID, **TASK_FIELDS}, required=("taskId",)),
)
PUBLISH_ACTOR_TASK = _changing(
    "publish-actor-task",
    "Publish Actor task",
    "Give a saved Actor task a public page, as its publicConfig describes it. Everybody can see it then: ask the user "
    "first.",
    publish_actor_task,
)
UNPUBLISH_ACTOR_TASK = _changing(
    "unpublish-actor-task",
    "Unpublish Actor task",
    "Take the public page of a saved Actor task away. Its publicConfig is kept.",
    unpublish_actor_task,
)


def task_answer(task: JsonObject, sentence: str, *, limit_bytes: int) -> ToolResult:
    """The task, and what was done in a sentence; an input of more than `limit_bytes` loses its largest fields."""
    public = task.get("publicConfig")
    shown, left_out = shown_input(task.get("input"), limit_bytes)
    structured: JsonObject = {
        "taskId": task.get("id"),
        "actorId": task.get("actId"),
        "name": task.get("name"),
        "title": task.get("title"),
        "description": task.get("description"),
        "publishedAt": _published_at(task),
        "publicConfig": {name: public[name] for name in _PUBLIC if name in public}
        if isinstance(public, dict)
        else None,
        "input": shown,
    }
    return texts(structured, compact(structured), f"{sentence}{left_out}")


def shown_input(saved: JsonValue, limit_bytes: int) -> tuple[JsonValue, str]:
    """A saved input as far as it fits into an answer, and a sentence that says what was left out, if anything was."""
    size = len(compact(saved).encode())
    if size <= limit_bytes:
        return saved, ""
    told = f" An input of {size} bytes is too large for this answer"
    if not isinstance(saved, dict):
        return None, f"{told}, and left out."
    kept = smallest_that_fit(saved, limit_bytes)
    missing = [name[:_MAX_NAME_CHARS] for name in saved if name not in kept]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return kept, f"{told}: it is shown without {', '.join(missing[:_NAMED])}{more}. A change sends all of an input."


def changes_of(given: dict[str, Any]) -> JsonObject:
    """The fields of a request to the platform; what was not given stays as it is."""
    changes: JsonObject = {
        name: given[name] for name in ("name", "title", "description", "input", "publicConfig") if name in given
    }
    options = {name: given[name] for name in _OPTIONS if name in given}
    return {**changes, "options": options} if options else changes


def _published_at(task: JsonObject) -> JsonValue:
    public = task.get("publicConfig")
    inner = public.get("publishedAt") if isinstance(public, dict) else None
    return task.get("publishedAt") or inner
