"""`get-actor-task`, `update-actor-task`, `publish-actor-task` and `unpublish-actor-task`: one saved task."""

from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.failures import Handler, failing_as
from outlast.workflows.tools.apify.definition import begun, reading_tool
from outlast.workflows.tools.apify.saved_tasks.saved_tasks import changes_of, no_task, task_answer
from outlast.workflows.tools.apify.schemas.build import arguments
from outlast.workflows.tools.apify.schemas.saved_tasks import FIELDS, TASK, TASK_ID
from outlast.workflows.tools.core.saved_tasks import change_saved_task, saved_task
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations

_ONE = arguments({"taskId": TASK_ID}, required=("taskId",))


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
    arguments({"taskId": TASK_ID, **FIELDS}, required=("taskId",)),
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
