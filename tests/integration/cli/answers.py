"""Responses of the API about one task."""

from typing import Any

from tests.support.http.fake_api import sse

ID = "task-0123456789abcdef"


def task(status: str = "working", *, finished: bool = False, **fields: Any) -> dict[str, Any]:
    """The task, as `GET /v1/tasks/{id}` shows it."""
    return {
        "id": ID,
        "tool": "outlast--sleeper",
        "status": status,
        "status_message": None,
        "mode": "default",
        "executor": "sync",
        "actor": "outlast/sleeper",
        "created_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:12Z" if finished else None,
        "workflow_url": f"http://temporal.example/workflows/{ID}",
        **fields,
    }


def answer(status: str = "completed", text: str = "Slept 3 s", **result: Any) -> dict[str, Any]:
    """Its answer, as `GET /v1/tasks/{id}/result` shows it."""
    body = {"content": [{"type": "text", "text": text}], "is_error": status != "completed", **result}
    return {"task": task(status, finished=True), "result": body}


CREATED = sse("created", {"tool": "outlast--sleeper", "mode": "default"}, id="1.1")
RUN_STARTED = sse("run_started", {"run_id": "run-1", "status": "READY"}, id="5.1", time="2026-01-01T00:00:01Z")
RUN_FINISHED = sse("run_finished", {"run_id": "run-1", "status": "SUCCEEDED"}, id="9.1", time="2026-01-01T00:00:08Z")
RETURNED = sse("handler_returned", {"status": "completed"}, id="12.1", time="2026-01-01T00:00:09Z")
COMPLETED = sse("task_completed", {"status": "completed", "message": "Slept"}, id="12.2", time="2026-01-01T00:00:09Z")


def said(message: str, second: int) -> str:
    """A status message; such events have no id."""
    data = {"status_message": message, "status": "working", "run_status": "RUNNING"}
    return sse("status_message", data, time=f"2026-01-01T00:00:{second:02d}Z")
