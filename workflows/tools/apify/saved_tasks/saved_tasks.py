"""A saved task as answers have it, and the parts of requests that its tools share."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.apify.answers.blocks import compact, texts
from outlast.workflows.tools.apify.answers.failures import is_missing
from outlast.workflows.tools.framework.ids import unquoted

_PUBLIC = ("seoTitle", "seoDescription", "inputSchemaFields", "datasetName", "datasetView")
_OPTIONS = ("build", "timeoutSecs", "memoryMbytes")


def task_answer(task: JsonObject, sentence: str) -> ToolResult:
    """The task, and what was done in a sentence."""
    public = task.get("publicConfig")
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
        "input": task.get("input"),
    }
    return texts(structured, compact(structured), sentence)


def changes_of(given: dict[str, Any]) -> JsonObject:
    """The fields of a request to the platform; what was not given stays as it is."""
    changes: JsonObject = {
        name: given[name] for name in ("name", "title", "description", "input", "publicConfig") if name in given
    }
    options = {name: given[name] for name in _OPTIONS if name in given}
    return {**changes, "options": options} if options else changes


def no_task(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """The text for a task that does not exist."""
    return f"Task {unquoted(given['taskId'])} was not found." if is_missing(envelope) else None


def _published_at(task: JsonObject) -> JsonValue:
    public = task.get("publicConfig")
    inner = public.get("publishedAt") if isinstance(public, dict) else None
    return task.get("publishedAt") or inner
