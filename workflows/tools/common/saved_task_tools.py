"""Tools for saved Actor tasks: create, get, update, publish, unpublish and delete."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, cast

from pydantic import Field, JsonValue, StringConstraints

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, Answer, answered, as_json, hint
from outlast.workflows.tools.core.call_actor_task import SavedTaskArguments
from outlast.workflows.tools.core.saved_tasks import (
    SavedOptions,
    change_saved_task,
    create_saved_task,
    delete_saved_task,
    saved_task,
)
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolAnnotations, tool

Name = Annotated[
    str,
    StringConstraints(min_length=3, max_length=63, pattern=r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])$"),
]
"""The name of a saved task (Apify API v2)."""
Text = Annotated[str, StringConstraints(max_length=5_000)]
_FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class PublicPage(Arguments):
    """What the public page of a saved task shows (Apify API v2, `publicConfig`)."""

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

    name: Name | None = Field(default=None, description="Letters, digits and inner hyphens.")
    title: Text | None = Field(default=None, description="What people see instead of the name.")
    description: Text | None = Field(default=None, description="What it is for.")
    input: dict[str, JsonValue] | None = Field(
        default=None, description="Input of its runs, fitting the Actor's own input schema."
    )
    call_options: SavedOptions | None = Field(
        default=None, alias="callOptions", description="How its runs are carried out."
    )
    public_config: PublicPage | None = Field(
        default=None, alias="publicConfig", description="What its public page shows. This alone publishes nothing."
    )

    def as_sent(self) -> JsonObject:
        """The fields that were given, as the platform's API has them."""
        given: dict[str, JsonValue] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "input": self.input,
            "options": self.call_options.as_sent() if self.call_options else None,
            "publicConfig": self.public_config.model_dump(by_alias=True, exclude_none=True)
            if self.public_config
            else None,
        }
        return {name: value for name, value in given.items() if value is not None}


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
        default=None, description="Saved input; left out where a change is answered."
    )


class CreateActorTaskArguments(TaskFields):
    """Of which Actor, and what is saved."""

    actor: Id = Field(description="Actor as `user/name`, its id, or the name of one of your own.")


class UpdateActorTaskArguments(SavedTaskArguments, TaskFields):
    """Which saved task, and what of it is changed."""


class DeletedTask(Answer):
    """What was removed."""

    actor_task_id: str
    name: str
    deleted: bool = True


async def create_actor_task(ctx: ToolContext, arguments: CreateActorTaskArguments) -> ToolResult:
    """Save it once, whatever fails in between, and say how it is run."""
    task = saved_task_view(await create_saved_task(ctx, arguments.actor, arguments.as_sent()))
    run = f"Run it with call-actor-task (actorTaskId {task.actor_task_id})."
    return answered(task, f"Saved task {task.name} as {task.actor_task_id}.", hint(ctx, "call-actor-task", run))


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


CREATE_ACTOR_TASK = (
    tool("create-actor-task")
    .category(Category.TASKS)
    .describe(
        "Save an Actor task: an Actor with an input and options under a name, to be run again, also by a schedule. It "
        "runs nothing."
    )
    .annotate(ToolAnnotations(title="Create Actor task", open_world=False))
    .args(CreateActorTaskArguments)
    .output(SavedTask)
    .server(create_actor_task)
    .seals("input")
    .plans(actors=("actor",))
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


def listed_task(task: JsonObject) -> ListedTask:
    """A task of the platform's list."""
    return ListedTask.model_validate(_shared(task))


def saved_task_view(task: JsonObject) -> SavedTask:
    """The platform's object of a task."""
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
