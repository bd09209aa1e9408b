"""A saved task as answers have it."""

from datetime import datetime
from typing import Any, cast

from pydantic import Field, JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.answers.answer import Answer

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
