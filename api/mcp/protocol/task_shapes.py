"""Tasks and their forms in the shapes of each protocol version: pure functions from a `Task` to a dict of the wire."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mcp_types import INTERNAL_ERROR

from outlast.activities.json_numbers import exact_json
from outlast.api.catalog.mcp_results import call_result
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.tasks.task_text import question_text, questions_line
from outlast.contracts.tasks import Task, TaskAnswer
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import DEFECT_META, TaskStatus

_PLAIN = frozenset({"string", "number", "integer", "boolean"})
Schema = dict[str, Any]
POLL_INTERVAL_MS = 1_000
HANDOFFS_META = "outlast/handoffs"
"""Key in `_meta`: for each question, the hand-off for clients that know the tool, and the full answer schema."""
RELATED_TASK_META = "io.modelcontextprotocol/related-task"
TOOLS_META = "outlast/tools"
"""Key in `_meta`: the tool of each task. An MCP task does not name its tool."""
STATE_EVENTS = frozenset(
    {"run_started", "run_resurrected", "status_message", "input_required", "task_completed", "run_finished"}
)
"""The events of a task after which its state, as MCP shows it, may differ."""


def legacy_task(task: Task) -> dict[str, Any]:
    """MCP 2025-11-25, `Task`. A task whose tool failed is `failed`, unless its mode differs.

    A task that is being cancelled is `cancelled`, as the answer to `tasks/cancel` is in this version.
    """
    status = TaskStatus.CANCELLED if task.is_cancelling else _protocol_status(dialect_of(task.mode).task_status(task))
    return {**_task(task, status), "ttl": _ttl_ms(task), "pollInterval": POLL_INTERVAL_MS}


def as_cancelled(task: Task) -> Task:
    """Return the task as cancelled, as the answer to `tasks/cancel` needs it (MCP 2025-11-25)."""
    return task.model_copy(update={"status": TaskStatus.CANCELLED})


def modern_task(task: Task) -> dict[str, Any]:
    """MCP 2026-07-28, extension `tasks`: `Task`. A task whose tool failed is `completed`; its result has `isError`."""
    status = TaskStatus.COMPLETED if task.status is TaskStatus.FAILED and task.answered else task.status
    return {**_task(task, _protocol_status(status)), "ttlMs": _ttl_ms(task), "pollIntervalMs": POLL_INTERVAL_MS}


def _task(task: Task, status: str) -> dict[str, Any]:
    message = status_message(task)
    return {
        "taskId": task.id,
        "status": str(status),
        **({"statusMessage": message} if message else {}),
        "createdAt": _iso_time(task.created_at),
        "lastUpdatedAt": _iso_time(task.finished_at or task.created_at),
    }


def detailed_task(answer: TaskAnswer, *, mode: str, caller_id: str) -> dict[str, Any]:
    """MCP 2026-07-28, extension `tasks`: `DetailedTask`, with the task's result, error or input requests.

    A task that waits only for another caller than `caller_id` is `working`; its status message names the approver.
    """
    state = {"resultType": "complete", **modern_task(answer.task)}
    if answer.task.status is TaskStatus.INPUT_REQUIRED:
        asked = answer.task.input_requests or {}
        questions = {key: question for key, question in asked.items() if not _is_for_another(question, caller_id)}
        if asked and not questions:
            return {**state, "status": TaskStatus.WORKING.value}
        meta = handoffs_meta(questions)
        return {**state, "inputRequests": input_requests(questions), **({"_meta": meta} if meta else {})}
    if answer.result is None or answer.task.status is TaskStatus.CANCELLED:
        return state
    if not answer.task.answered or DEFECT_META in answer.result.meta:
        failure = answer.result.error
        error: dict[str, Any] = {"code": INTERNAL_ERROR, "message": answer.result.headline or "The tool failed."}
        data = {"data": failure.model_dump(mode="json", exclude_none=True)} if failure else {}
        return {**state, "status": TaskStatus.FAILED.value, "error": {**error, **data}}
    return {**state, "result": call_result(answer.result, mode=mode)}


def _protocol_status(status: str) -> str:
    """Return `working` for a queued task, which MCP does not have; the status message has the details."""
    return TaskStatus.WORKING if status == TaskStatus.QUEUED else status


def status_message(task: Task) -> str:
    """Return the tool and its state, with an open approval in full, or the mode's own message."""
    own = dialect_of(task.mode).status_message(task)
    if own is not None:
        return own
    if task.status is TaskStatus.INPUT_REQUIRED and task.input_requests:
        return f"{task.tool}: {questions_line(task.input_requests)}"
    return f"{task.tool}: {task.status_message or task.status}"


def input_requests(questions: Mapping[str, InputRequest]) -> dict[str, Any]:
    """MCP 2026-07-28, `inputRequests`."""
    return {key: input_request(question) for key, question in questions.items()}


def handoffs_meta(questions: Mapping[str, InputRequest]) -> dict[str, Any]:
    """Return the `_meta` for questions that hand a call to the client; empty without hand-offs."""
    handoffs = {
        key: {**question.handoff.model_dump(mode="json", exclude_none=True), "answerSchema": question.requested_schema}
        for key, question in questions.items()
        if question.handoff is not None
    }
    return {HANDOFFS_META: handoffs} if handoffs else {}


def input_request(question: InputRequest) -> dict[str, Any]:
    """Return a question as the request of its method. The message of an approval describes the call to approve."""
    if question.method != "elicitation/create":
        return {"method": question.method, "params": question.params}
    schema = question.requested_schema if question.handoff is None else form_schema(question.requested_schema)
    form: dict[str, Any] = {"mode": "form", "message": question_text(question), "requestedSchema": schema}
    return {"method": question.method, "params": form}


def _is_for_another(question: InputRequest, caller_id: str) -> bool:
    return question.handoff is not None and bool(question.approvers) and question.handoff.maker == caller_id


def _ttl_ms(task: Task) -> int | None:
    """Return the milliseconds from the task's creation; None (no limit) until the task has ended."""
    return max(1, int((task.expires_at - task.created_at).total_seconds() * 1_000)) if task.expires_at else None


def _iso_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def form_schema(schema: Schema) -> Schema:
    """Return `schema` as a form can show it. Clients that support more find the original schema in `_meta`."""
    definitions: Schema = schema.get("$defs", {})
    fields: Schema = {}
    for name, field in schema.get("properties", {}).items():
        as_json = {"title": field.get("title", name), "description": f"{field.get('description', '')} As JSON.".strip()}
        fields[name] = _form_field(field, definitions) or {"type": "string", **as_json}
    form: Schema = {"type": "object", "properties": fields}
    required = list(schema.get("required", []))
    return {**form, "required": required} if required else form


def from_form(schema: Schema, content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a form as `schema` defines it: JSON text parsed, empty JSON fields removed."""
    definitions: Schema = schema.get("$defs", {})
    return {
        name: _parsed_json(value) if _is_json_field(schema, name, definitions) else value
        for name, value in content.items()
        if not (value == "" and _is_json_field(schema, name, definitions))
    }


def _is_json_field(schema: Schema, name: str, definitions: Schema) -> bool:
    fields: dict[str, Schema] = schema.get("properties", {})
    return name in fields and _form_field(fields[name], definitions) is None


def _parsed_json(value: Any) -> Any:
    """Text that is not JSON stays text; the check of the answer reports it."""
    try:
        return exact_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _form_field(field: Schema, definitions: Schema) -> Schema | None:
    """Return a field as a form shows it; None if a form cannot show it."""
    found = _dereferenced(field, definitions)
    alternatives = [entry for entry in found.get("anyOf", []) if entry.get("type") != "null"]
    if len(alternatives) == 1:
        rest = {key: value for key, value in found.items() if key not in ("anyOf", "default")}
        default = {"default": found["default"]} if found.get("default") is not None else {}
        found = {**_dereferenced(alternatives[0], definitions), **rest, **default}
    if found.get("type") in _PLAIN:
        return found
    items = _dereferenced(found.get("items", {}), definitions) if found.get("type") == "array" else {}
    return {**found, "items": items} if "enum" in items or "anyOf" in items else None


def _dereferenced(field: Schema, definitions: Schema) -> Schema:
    """`field` with its `$ref` replaced by the definition."""
    reference = field.get("$ref")
    if not isinstance(reference, str):
        return field
    beside = {key: value for key, value in field.items() if key != "$ref"}
    return {**definitions.get(reference.removeprefix("#/$defs/"), {}), **beside}
