"""Tools for saved Actor tasks: create, get, list, update, publish, unpublish and delete."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, cast

from pydantic import Field, JsonValue, StringConstraints

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, as_json, hint
from outlast.workflows.tools.core import lists
from outlast.workflows.tools.core.call_actor import SavedTaskArguments
from outlast.workflows.tools.core.schedules import (
    TASKS,
    SavedOptions,
    change_saved_task,
    create_saved_task,
    delete_saved_task,
    saved_task,
)
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import (
    Arguments,
    Category,
    ToolAnnotations,
    ToolBuilder,
    limited_tool,
    reads,
)

Name = Annotated[
    str, StringConstraints(min_length=3, max_length=63, pattern=r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])$")
]
"""Name of a saved task (Apify API v2)."""
Text = Annotated[str, StringConstraints(max_length=5_000)]
_FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class PublicPage(Arguments):
    """Content of the public page of a saved task (Apify API v2, `publicConfig`)."""

    seo_title: str | None = Field(default=None, max_length=60, alias="seoTitle", description="Title of the page.")
    seo_description: str | None = Field(
        default=None, max_length=160, alias="seoDescription", description="Description of the page."
    )
    input_schema_fields: list[_FieldName] | None = Field(
        default=None, max_length=200, alias="inputSchemaFields", description="Fields of the input that it shows."
    )
    dataset_name: _FieldName | None = Field(
        default=None, alias="datasetName", description="Dataset whose schema has the views."
    )
    dataset_view: _FieldName | None = Field(
        default=None, alias="datasetView", description="View of the rows that it shows."
    )


class TaskFields(Arguments):
    """Properties of a saved task."""

    name: Name | None = Field(default=None, description="Letters, digits and hyphens between them.")
    title: Text | None = Field(default=None, description="Displayed instead of the name.")
    description: Text | None = Field(default=None, description="What it is for.")
    input: dict[str, JsonValue] | None = Field(
        default=None, description="Input of its runs, fitting the Actor's own input schema."
    )
    call_options: SavedOptions | None = Field(default=None, alias="callOptions", description="Options of its runs.")
    public_config: PublicPage | None = Field(
        default=None,
        alias="publicConfig",
        description="Content of its public page. Setting it does not publish the page.",
    )

    def as_sent(self) -> JsonObject:
        """Return the given fields for the platform's API."""
        given = self.model_dump(
            by_alias=True, exclude_none=True, include={"name", "title", "description", "input", "public_config"}
        )
        return {**given, "options": self.call_options.as_sent()} if self.call_options else given


_PUBLIC = ("seoTitle", "seoDescription", "inputSchemaFields", "datasetName", "datasetView")
_OPTIONS = {"build": "build", "timeout": "timeoutSecs", "memory": "memoryMbytes"}


class ListedTask(Answer):
    """A saved task in a list."""

    actor_task_id: str
    name: str
    title: str | None = None
    actor_id: str
    actor_name: str | None = Field(default=None, description="`user/name`.")
    runs: int | None = Field(default=None, description="How often it was run.")
    created_at: datetime | None = None
    modified_at: datetime | None = None


class SavedTask(ListedTask):
    """A saved task."""

    description: str | None = None
    call_options: dict[str, JsonValue] | None = Field(default=None, description="Saved options of its runs.")
    is_public: bool = Field(default=False, description="Whether it has a public page.")
    public_config: dict[str, JsonValue] | None = Field(default=None, description="What its public page shows.")
    input: dict[str, JsonValue] | list[JsonValue] | None = Field(
        default=None, description="Saved input; absent in the answer to a change."
    )


class CreateActorTaskArguments(TaskFields):
    """An Actor, and the properties to save."""

    actor: Id = Field(description="Actor as `user/name`, its id, or the name of one of your own.")


class UpdateActorTaskArguments(SavedTaskArguments, TaskFields):
    """A saved task, and its new properties."""


class DeletedTask(Answer):
    """A deleted saved task."""

    actor_task_id: str
    name: str
    deleted: bool = True


async def create_actor_task(ctx: HandlerContext, arguments: CreateActorTaskArguments) -> ToolResult:
    """Save the task once, also if attempts fail."""
    task = saved_task_view(await create_saved_task(ctx, arguments.actor, arguments.as_sent()))
    run = f"Run it with call-actor-task (actorTaskId {task.actor_task_id})."
    return answered(task, f"Saved task {task.name} as {task.actor_task_id}.", hint(ctx, "call-actor-task", run))


async def get_actor_task(ctx: HandlerContext, arguments: SavedTaskArguments) -> ToolResult:
    """Return the task with its input."""
    task = saved_task_view(await saved_task(ctx, arguments.actor_task_id))
    return answered(
        task,
        f"Saved task {task.name} ({task.actor_task_id}) of Actor {task.actor_id}.",
        f"It has the input: {as_json(task.input)}" if task.input else "It has no input.",
        f"Options: {as_json(task.call_options)}" if task.call_options else None,
        "It has a public page." if task.is_public else None,
        hint(ctx, "call-actor-task", "Run it with call-actor-task."),
    )


async def update_actor_task(ctx: HandlerContext, arguments: UpdateActorTaskArguments) -> ToolResult:
    """Change only the given fields."""
    return await _changed(ctx, arguments, arguments.as_sent(), "Changed saved task {name}.")


async def publish_actor_task(ctx: HandlerContext, arguments: SavedTaskArguments) -> ToolResult:
    """Publish the page of the task."""
    return await _changed(ctx, arguments, {"isPublic": True}, "Saved task {name} has a public page now.")


async def unpublish_actor_task(ctx: HandlerContext, arguments: SavedTaskArguments) -> ToolResult:
    """Remove the public page of the task, and keep its configuration."""
    return await _changed(ctx, arguments, {"isPublic": False}, "Saved task {name} no longer has a public page.")


async def delete_actor_task(ctx: HandlerContext, arguments: SavedTaskArguments) -> ToolResult:
    """Delete the task. Its runs stay."""
    removed = await delete_saved_task(ctx, arguments.actor_task_id)
    deleted = DeletedTask(actor_task_id=str(removed.get("id")), name=str(removed.get("name")))
    return answered(deleted, f"Deleted saved task {deleted.name}. Its runs and their output are kept.")


async def _changed(ctx: HandlerContext, arguments: SavedTaskArguments, fields: JsonObject, done: str) -> ToolResult:
    task = saved_task_view(await change_saved_task(ctx, arguments.actor_task_id, fields))
    return answered(task, done.format(name=task.name))


def _task_tool(
    name: str,
    hints: ToolAnnotations,
    does: str,
    handler: Callable[[HandlerContext, Any], Awaitable[ToolResult]],
    arguments: type[SavedTaskArguments | CreateActorTaskArguments] = SavedTaskArguments,
    answer: type[Answer] = SavedTask,
) -> ToolBuilder:
    return limited_tool(name, Category.TASKS, hints, does, handler, arguments, answer)


CREATE_ACTOR_TASK = (
    _task_tool(
        "create-actor-task",
        ToolAnnotations(title="Create Actor task", open_world=False),
        "Save an Actor task: an Actor with an input and options under a name, to be run again, also by a schedule. It "
        "runs nothing.",
        create_actor_task,
        CreateActorTaskArguments,
    )
    .seals("input")
    .plans(actors=("actor",))
    .build()
)
GET_ACTOR_TASK = _task_tool(
    "get-actor-task",
    reads("Get Actor task"),
    "Get a saved Actor task: its Actor, its input and options, and whether it has a public page.",
    get_actor_task,
).build()
UPDATE_ACTOR_TASK = (
    _task_tool(
        "update-actor-task",
        ToolAnnotations(title="Update Actor task", idempotent=True, open_world=False),
        "Change a saved Actor task: given fields replace the saved ones; the input is replaced as a whole.",
        update_actor_task,
        UpdateActorTaskArguments,
    )
    .seals("input")
    .build()
)
PUBLISH_ACTOR_TASK = _task_tool(
    "publish-actor-task",
    ToolAnnotations(title="Publish Actor task", idempotent=True, open_world=False),
    "Give a saved Actor task a public page, as described by its publicConfig. Everybody can see the page: ask the "
    "user first.",
    publish_actor_task,
).build()
UNPUBLISH_ACTOR_TASK = _task_tool(
    "unpublish-actor-task",
    ToolAnnotations(title="Unpublish Actor task", idempotent=True, open_world=False),
    "Remove the public page of a saved Actor task. Its publicConfig is kept.",
    unpublish_actor_task,
).build()
DELETE_ACTOR_TASK = _task_tool(
    "delete-actor-task",
    ToolAnnotations(title="Delete Actor task", destructive=True, idempotent=True, open_world=False),
    "Delete a saved Actor task permanently. Its runs and their output are kept.",
    delete_actor_task,
    answer=DeletedTask,
).build()


def saved_task_view(task: JsonObject) -> SavedTask:
    """Return the answer for the platform's object of a task."""
    public, options = (cast("dict[str, Any]", task.get(name) or {}) for name in ("publicConfig", "options"))
    return SavedTask.model_validate(
        {
            **_shared(task),
            "description": task.get("description"),
            "call_options": {name: options[sent] for name, sent in _OPTIONS.items() if options.get(sent)} or None,
            "is_public": bool(task.get("isPublic") or public.get("publishedAt")),
            "public_config": {name: public[name] for name in _PUBLIC if name in public} or None,
            "input": task.get("input"),
        }
    )


def _shared(task: JsonObject) -> dict[str, Any]:
    stats = cast("dict[str, Any]", task.get("stats") or {})
    named = task.get("actUsername") and task.get("actName")
    return {
        "actor_task_id": task.get("id"),
        "name": task.get("name"),
        "title": task.get("title"),
        "actor_id": task.get("actId"),
        "actor_name": f"{task['actUsername']}/{task['actName']}" if named else None,
        "runs": stats.get("totalRuns"),
        "created_at": task.get("createdAt"),
        "modified_at": task.get("modifiedAt"),
    }


class SavedTaskList(lists.ListPage):
    """A page of saved tasks."""

    tasks: list[ListedTask] = Field(description="Without their input.")


async def list_saved_tasks(ctx: HandlerContext, arguments: lists.NewestFirstArguments) -> lists.Listed:
    """Read a page of saved tasks."""
    page = await lists.platform_page(ctx, TASKS, arguments)
    tasks = [ListedTask.model_validate(_shared(entry)) for entry in lists.entries_of(page)]
    run = hint(ctx, "call-actor-task", "Run one with call-actor-task.") if tasks else None
    return lists.Listed(tasks, [_line(task) for task in tasks], lists.total_of(page), arguments.offset, (run,))


def _line(task: ListedTask) -> str:
    title = f" “{task.title}”" if task.title else ""
    runs = f", run {task.runs} times" if task.runs is not None else ""
    return f"- {task.actor_task_id} ({task.name}){title}: Actor {task.actor_name or task.actor_id}{runs}"


GET_ACTOR_TASK_LIST = lists.ListTool(
    name="get-actor-task-list",
    category=Category.TASKS,
    title="Get Actor task list",
    description="List saved Actor tasks of the authenticated user, newest first. Use it to find one and its id.",
    arguments=lists.NewestFirstArguments,
    answer=SavedTaskList,
    entries="tasks",
    things="saved tasks",
    read=list_saved_tasks,
).build()
SAVED_TASK_TOOLS = (
    *(CREATE_ACTOR_TASK, GET_ACTOR_TASK, GET_ACTOR_TASK_LIST, UPDATE_ACTOR_TASK),
    *(PUBLISH_ACTOR_TASK, UNPUBLISH_ACTOR_TASK, DELETE_ACTOR_TASK),
)
