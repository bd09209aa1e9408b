"""A task in the words of each era. Pure functions: a `Task` in, the wire's dict out.

Dicts, not models: models are written without their nulls, and `ttl: null` has to be there.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from outlast.api.contracts.tasks import Task
from outlast.api.mcp.protocol.forms import form_schema
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import TaskStatus

POLL_INTERVAL_MS = 1_000
HANDOFFS_META = "outlast/handoffs"
"""Key in `_meta`: by question, what is handed to a client that knows the tool, and the whole schema of the answer."""


def legacy_task(task: Task) -> dict[str, Any]:
    """MCP 2025-11-25, `Task`. A task whose tool failed has status `failed`."""
    return {
        "taskId": task.id,
        "status": task.status.value,
        "statusMessage": status_message(task),
        "createdAt": _time(task.created_at),
        "lastUpdatedAt": _time(task.finished_at or task.created_at),
        "ttl": _ttl_ms(task),
        "pollInterval": POLL_INTERVAL_MS,
    }


def modern_task(task: Task) -> dict[str, Any]:
    """MCP 2026-07-28, extension `tasks`. A tool that failed has completed its task: its result says `isError`."""
    status = TaskStatus.COMPLETED if task.status is TaskStatus.FAILED and task.answered else task.status
    return {
        "taskId": task.id,
        "status": status.value,
        "statusMessage": status_message(task),
        "createdAt": _time(task.created_at),
        "lastUpdatedAt": _time(task.finished_at or task.created_at),
        "ttlMs": _ttl_ms(task),
        "pollIntervalMs": POLL_INTERVAL_MS,
    }


def status_message(task: Task) -> str:
    """Begins with the tool: a task names it nowhere else."""
    return f"{task.tool}: {task.status_message or task.status.value}"


def input_requests(questions: Mapping[str, InputRequest]) -> dict[str, Any]:
    """MCP 2026-07-28, `inputRequests`."""
    return {key: input_request(question) for key, question in questions.items()}


def handoffs_meta(questions: Mapping[str, InputRequest]) -> dict[str, Any]:
    """The `_meta` beside questions that hand a call over; empty when none does."""
    handed = {
        key: {**question.handoff.model_dump(mode="json", exclude_none=True), "answerSchema": question.requested_schema}
        for key, question in questions.items()
        if question.handoff is not None
    }
    return {HANDOFFS_META: handed} if handed else {}


def input_request(question: InputRequest) -> dict[str, Any]:
    """One question as the request of its method."""
    if question.method != "elicitation/create":
        return {"method": question.method, "params": question.params}
    schema = question.requested_schema if question.handoff is None else form_schema(question.requested_schema)
    form: dict[str, Any] = {"mode": "form", "message": question.message, "requestedSchema": schema}
    return {"method": question.method, "params": form}


def _ttl_ms(task: Task) -> int | None:
    """Milliseconds from the creation. Unlimited while the task has not ended: its time runs from its end."""
    if task.expires_at is None:
        return None
    return max(1, int((task.expires_at - task.created_at).total_seconds() * 1_000))


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
