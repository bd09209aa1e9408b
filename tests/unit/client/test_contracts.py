"""The client reads answers of newer servers: it keeps fields and values that it does not know."""

from typing import Any

import pytest
from pydantic import BaseModel

from outlast.activities.contracts import ErrorCategory
from outlast.activities.runs.contracts import RunState
from outlast.client import Batch, BatchRow, Operations, Session, Task, TaskAnswer, ToolError
from outlast.contracts.base import Response
from outlast.contracts.tasks import Run
from outlast.workflows.contracts.tool_calls import TaskStatus

NOW = "2026-01-01T00:00:00Z"
RUN = {"run_id": "r", "actor_id": "a", "status": "RUNNING", "dataset_id": "d", "key_value_store_id": "k"}
TASK: dict[str, Any] = {
    "id": "t-1",
    "tool": "t",
    "status": "working",
    "mode": "default",
    "executor": "sync",
    "created_at": NOW,
}
HANDOFF = {"tool": "t", "phase": "p"}
ERROR = {"tool": "t", "message": "No.", "category": "timeout", "retryable": True}


def read(model: type[BaseModel], document: dict[str, Any]) -> Any:
    """As `outlast.client.retries.parsed` reads it."""
    return model.model_validate(document, extra="allow")


def test_known_values_are_members_of_their_enumeration() -> None:
    assert read(Task, TASK).status is TaskStatus.WORKING
    assert ToolError.model_validate(ERROR).category is ErrorCategory.TIMEOUT


@pytest.mark.parametrize(
    "newer",
    [
        {"status": "suspended"},
        {"executor": "remote"},
        {"run": {**RUN, "limit_basis": "team", "over_budget": "energy"}},
        {"input_requests": {"q": {"method": "forms/show", "message": "?"}}},
        {
            "input_requests": {
                "q": {"message": "?", "handoff": {"kind": "vote", "audience": "team", "tool": "t", "phase": "p"}}
            }
        },
    ],
    ids=lambda newer: next(iter(newer)),
)
def test_values_of_a_newer_server_are_kept_as_text(newer: dict[str, Any]) -> None:
    shown = read(Task, {**TASK, **newer}).document()
    for name, value in newer.items():
        assert _holds(shown[name], value)


def test_a_newer_category_of_errors_and_status_of_items_is_kept() -> None:
    row = {"key": "1", "index": 0, "status": "skipped", "task_id": "t-1", "attempts": 1}
    shown = read(BatchRow, {**row, "error": {**ERROR, "category": "weather"}})
    assert (shown.status, shown.error.category) == ("skipped", "weather")


def test_fields_of_a_newer_server_are_kept_at_every_depth() -> None:
    question = {"message": "?", "handoff": {**HANDOFF, "urgency": 3}}
    newer = {**TASK, "mood": "good", "run": {**RUN, "cpu": {"cores": 2}}, "input_requests": {"q": question}}
    shown = read(TaskAnswer, {"task": newer, "cached": True}).document()
    assert shown["cached"] is True
    assert shown["task"]["mood"] == "good"
    assert shown["task"]["run"]["cpu"] == {"cores": 2}
    assert shown["task"]["input_requests"]["q"]["handoff"]["urgency"] == 3


def test_blocks_of_a_newer_kind_are_read() -> None:
    content = [{"type": "hologram", "uri": "x://y"}, {"type": "text", "text": "Done."}]
    answer = read(TaskAnswer, {"task": {**TASK, "status": "completed"}, "result": {"content": content}})
    assert answer.text == "[hologram x://y]\nDone."


def test_the_server_and_the_client_have_one_model_of_a_run_and_of_options() -> None:
    run = RunState(**RUN, limit_usd="0.50")  # type: ignore[arg-type]
    made = Task(**TASK, run=run)  # type: ignore[arg-type]
    assert made.run is run
    seen = read(Task, made.model_dump(mode="json"))
    assert isinstance(seen.run, Run)
    assert seen.run.limit_usd == 0.5


def test_options_are_plain_objects() -> None:
    batch = {
        "id": "b",
        "tool": "t",
        "mode": "default",
        "status": "working",
        "created_at": NOW,
        "total": 1,
        "waiting": 1,
    }
    seen = read(Batch, {**batch, "results": "out_1", "options": {"concurrency": 3, "later": 1}})
    assert seen.options == {"concurrency": 3, "later": 1}
    assert not seen.has_ended
    assert read(Session, {"id": "s", "controls": {"seed": 1}}).controls == {"seed": 1}


def test_fields_that_an_older_server_leaves_out_are_empty() -> None:
    task = read(
        Task, {"id": "t-1", "tool": "t", "status": "working", "created_at": NOW, "run": {**RUN, "actor_id": ""}}
    )
    assert (task.mode, task.executor, task.run.actor_id) == ("", "", "")
    assert read(Operations, {"at": NOW, "scope": "own", "counts": {}}).counts.queued == 0


def test_they_are_documented_as_always_sent() -> None:
    schema = Task.model_json_schema(mode="serialization")
    assert {"mode", "executor"} <= set(schema["required"])
    assert "default" not in schema["properties"]["mode"]


@pytest.mark.parametrize("model", Response.__subclasses__(), ids=lambda model: model.__name__)
def test_added_fields_are_not_documented(model: type[Response]) -> None:
    assert "additionalProperties" not in model.model_json_schema(mode="serialization")


def _holds(shown: Any, value: Any) -> bool:
    if isinstance(value, dict):
        return all(_holds(shown[name], part) for name, part in value.items())
    return shown == value
