"""A saved task as answers have it, and the parts of requests that its tools share."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.apify.answers.blocks import compact, smallest_that_fit, texts
from outlast.workflows.tools.apify.answers.failures import is_missing
from outlast.workflows.tools.framework.ids import unquoted

_PUBLIC = ("seoTitle", "seoDescription", "inputSchemaFields", "datasetName", "datasetView")
_OPTIONS = ("build", "timeoutSecs", "memoryMbytes")
_NAMED, _MAX_NAME_CHARS = 10, 100
"""Fields that a sentence names, and how far."""


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


def no_task(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """The text for a task that does not exist."""
    return f"Task {unquoted(given['taskId'])} was not found." if is_missing(envelope) else None


def _published_at(task: JsonObject) -> JsonValue:
    public = task.get("publicConfig")
    inner = public.get("publishedAt") if isinstance(public, dict) else None
    return task.get("publishedAt") or inner
