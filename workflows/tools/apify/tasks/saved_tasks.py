"""A saved task as answers have it, and the parts of requests that its tools share."""

import hashlib
from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import compact, texts
from outlast.workflows.tools.apify.answers.failures import is_missing
from outlast.workflows.tools.framework.ids import unquoted

COLLECTION = "actor-tasks"
_PUBLIC = ("seoTitle", "seoDescription", "inputSchemaFields", "datasetName", "datasetView")
_OPTIONS = ("build", "timeoutSecs", "memoryMbytes")
_NAME_CHARS, _DIGEST_CHARS = 50, 8


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


def name_for(ctx: ToolContext, actor: JsonObject) -> str:
    """The name of a task that was given none: the same in every attempt of this call, and of no other."""
    digest = hashlib.sha256(ctx.task_id.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{str(actor.get('name'))[:_NAME_CHARS]}-{digest}"


def no_task(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """The text for a task that there is not."""
    return f"Task {unquoted(given['taskId'])} was not found." if is_missing(envelope) else None


def _published_at(task: JsonObject) -> JsonValue:
    public = task.get("publicConfig")
    inner = public.get("publishedAt") if isinstance(public, dict) else None
    return task.get("publishedAt") or inner
