"""Tools about one saved task: get, update, publish, unpublish and delete it."""

from collections.abc import Awaitable, Callable
from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES, Answer, answered, hint
from outlast.workflows.tools.answers.pieces import as_json
from outlast.workflows.tools.common.saved_tasks.arguments import TaskFields
from outlast.workflows.tools.common.saved_tasks.views import SavedTask, saved_task_view
from outlast.workflows.tools.core.call_actor_task import SavedTaskArguments
from outlast.workflows.tools.core.saved_tasks import change_saved_task, delete_saved_task, saved_task
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations, tool


class UpdateActorTaskArguments(SavedTaskArguments, TaskFields):
    """Which saved task, and what of it is changed."""


class DeletedTask(Answer):
    """What was removed."""

    actor_task_id: str
    name: str
    deleted: bool = True


async def get_actor_task(ctx: ToolContext, arguments: SavedTaskArguments) -> ToolResult:
    """The task as it is, with its input."""
    task = saved_task_view(await saved_task(ctx, arguments.actor_task_id))
    return answered(
        task,
        f"Saved task {task.name} ({task.actor_task_id}) of Actor {task.actor_id}.",
        f"It has the input: {as_json(task.input)}" if task.input else "It has no input.",
        f"Options: {as_json(task.call_options)}" if task.call_options else None,
        "It has a public page." if task.is_public else None,
        hint(ctx, "call-actor-task", "Run it with call-actor-task."),
    )


async def update_actor_task(ctx: ToolContext, arguments: UpdateActorTaskArguments) -> ToolResult:
    """Change what was given, and nothing else."""
    return await _changed(ctx, arguments, arguments.as_sent(), "Changed saved task {name}.")


async def publish_actor_task(ctx: ToolContext, arguments: SavedTaskArguments) -> ToolResult:
    """Give it its public page."""
    return await _changed(ctx, arguments, {"isPublic": True}, "Saved task {name} has a public page now.")


async def unpublish_actor_task(ctx: ToolContext, arguments: SavedTaskArguments) -> ToolResult:
    """Take its public page away; what the page showed is kept."""
    return await _changed(ctx, arguments, {"isPublic": False}, "Saved task {name} has no public page any more.")


async def delete_actor_task(ctx: ToolContext, arguments: SavedTaskArguments) -> ToolResult:
    """Remove it; what it has run stays."""
    removed = await delete_saved_task(ctx, arguments.actor_task_id)
    deleted = DeletedTask(actor_task_id=str(removed.get("id")), name=str(removed.get("name")))
    return answered(deleted, f"Deleted saved task {deleted.name}. Its runs and what they wrote stay.")


async def _changed(ctx: ToolContext, arguments: SavedTaskArguments, fields: JsonObject, done: str) -> ToolResult:
    task = saved_task_view(await change_saved_task(ctx, arguments.actor_task_id, fields))
    return answered(task, done.format(name=task.name))


def _tool(
    name: str,
    does: str,
    hints: ToolAnnotations,
    handler: Callable[[ToolContext, Any], Awaitable[ToolResult]],
    arguments: type[SavedTaskArguments] = SavedTaskArguments,
    answer: type[Answer] = SavedTask,
    seals: tuple[str, ...] = (),
) -> Tool:
    return (
        tool(name)
        .category(Category.TASKS)
        .describe(does)
        .annotate(hints)
        .args(arguments)
        .output(answer)
        .server(handler)
        .seals(*seals)
        .output_threshold(MAX_ANSWER_BYTES)
        .build()
    )


GET_ACTOR_TASK = _tool(
    "get-actor-task",
    "Get a saved Actor task: its Actor, its input and options, and whether it has a public page.",
    ToolAnnotations(title="Get Actor task", read_only=True, idempotent=True, open_world=False),
    get_actor_task,
)
UPDATE_ACTOR_TASK = _tool(
    "update-actor-task",
    "Change a saved Actor task: fields that you give take the place of what was saved, the input as a whole.",
    ToolAnnotations(title="Update Actor task", idempotent=True, open_world=False),
    update_actor_task,
    UpdateActorTaskArguments,
    seals=("input",),
)
PUBLISH_ACTOR_TASK = _tool(
    "publish-actor-task",
    "Give a saved Actor task a public page, as its publicConfig describes it. Everybody can see it then: ask the user "
    "first.",
    ToolAnnotations(title="Publish Actor task", idempotent=True, open_world=False),
    publish_actor_task,
)
UNPUBLISH_ACTOR_TASK = _tool(
    "unpublish-actor-task",
    "Take the public page of a saved Actor task away. Its publicConfig is kept.",
    ToolAnnotations(title="Unpublish Actor task", idempotent=True, open_world=False),
    unpublish_actor_task,
)
DELETE_ACTOR_TASK = _tool(
    "delete-actor-task",
    "Delete a saved Actor task for good. Its runs, and what they wrote, stay.",
    ToolAnnotations(title="Delete Actor task", destructive=True, idempotent=True, open_world=False),
    delete_actor_task,
    answer=DeletedTask,
)
