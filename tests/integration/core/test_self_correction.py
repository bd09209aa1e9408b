"""A session counts identical failures of its calls, whatever happens to its workflow, and its events say so."""

import json
import secrets
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from temporalio.client import Client

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.sessions import session_workflow_id
from outlast.workflows.contracts.tool_calls import TaskCompleted, TaskStatus
from outlast.workflows.session import SessionWorkflow
from outlast.workflows.signatures import signature
from outlast.workflows.tools.common.invalid import InvalidArguments
from outlast.workflows.tools.framework.tool import invalid_arguments, violations_of
from tests.support.calls.tasks import completed
from tests.support.eventually import eventually

ABSENT = {"tool": "get-actor-run", "arguments": {"runId": "absent"}}


@pytest.fixture
def session() -> str:
    return f"chat-{secrets.token_hex(6)}"


async def verdicts(api: httpx.AsyncClient, session: str, count: int, after: str = "") -> list[dict[str, Any]]:
    """What the first `count` events of the session say of going on."""
    found: list[dict[str, Any]] = []
    headers = {"Last-Event-ID": after} if after else {}
    async with api.stream("GET", f"/v1/sessions/{session}/events", headers=headers) as response:
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                found.append(json.loads(line[5:])["data"])
            if len(found) == count:
                return found
    raise AssertionError(f"there were {len(found)} events")


def failed(number: int, *, retryable: bool) -> TaskCompleted:
    category = ErrorCategory.NETWORK if retryable else ErrorCategory.NOT_FOUND
    envelope = ErrorEnvelope(tool="t", message="No way.", category=category, retryable=retryable)
    return TaskCompleted(
        task_id=f"t-{number}", tool="t", status=TaskStatus.FAILED, error_signature=signature(envelope), error=envelope
    )


async def test_the_second_identical_failure_of_a_session_is_told(
    api: httpx.AsyncClient, temporal: Client, session: str
) -> None:
    for body in (ABSENT, {**ABSENT, "arguments": {"runId": "elsewhere"}}, ABSENT, {"tool": "get-dataset-list"}):
        await completed(api, {**body, "session_id": session})
    events = await verdicts(api, session, 4)
    assert [event["error"]["category"] for event in events[:3]] == ["not_found"] * 3
    assert "error" not in events[3]
    correction = next(event["self_correction"] for event in events if "self_correction" in event)
    assert (correction["action"], correction["tool"]) == ("stop", "get-actor-run")
    assert "Read the error" in correction["reminder"]
    handle = temporal.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id("local", session))
    view = await handle.query(SessionWorkflow.self_correction)
    assert max(failure.count for failure in view.counted.failures) >= 2
    assert view.verdict.action == "none"


async def test_a_refused_call_tells_its_session_no_more_than_some_places(api: httpx.AsyncClient, session: str) -> None:
    arguments = {f"{number}-{'long' * 100}": number for number in range(500)}
    refused = await api.post("/v1/tasks", json={"tool": "get-actor-run", "arguments": arguments, "session_id": session})
    assert refused.status_code == 422
    (told,) = await verdicts(api, session, 1)
    assert len(told["error"]["violations"]) == 20
    assert all(len(violation["path"]) <= 200 for violation in told["error"]["violations"])


@pytest.mark.parametrize(
    ("retryable", "actions"),
    [(False, ["", "stop", "stop", "stop", "stop"]), (True, ["", "reminder", "", "stop", "stop"])],
)
async def test_a_loop_is_stopped_sooner_when_the_failure_cannot_pass(
    api: httpx.AsyncClient, temporal: Client, session: str, retryable: bool, actions: list[str]
) -> None:
    await completed(api, {"tool": "get-dataset-list", "session_id": session})
    handle = temporal.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id("local", session))
    for number in range(5):
        await handle.signal(SessionWorkflow.task_completed, failed(number, retryable=retryable))
    events = (await verdicts(api, session, 6))[1:]
    assert [event.get("self_correction", {}).get("action", "") for event in events] == actions
    assert [index for index, event in enumerate(events) if "reminder" in event.get("self_correction", {})] == [1]


async def test_counting_goes_on_when_the_session_continues_as_new(
    api: httpx.AsyncClient, temporal: Client, session: str
) -> None:
    await completed(api, {"tool": "get-dataset-list", "session_id": session})
    handle = temporal.get_workflow_handle_for(SessionWorkflow.run, session_workflow_id("local", session))
    first_run = (await handle.describe()).run_id
    await handle.signal(SessionWorkflow.task_completed, failed(0, retryable=True))

    async def continued() -> bool:
        done = TaskCompleted(task_id="fine", tool="t", status=TaskStatus.COMPLETED)
        await handle.signal(SessionWorkflow.task_completed, done)
        return (await handle.describe()).run_id != first_run

    await eventually(continued)
    await handle.signal(SessionWorkflow.task_completed, failed(1, retryable=True))
    view = await handle.query(SessionWorkflow.self_correction)
    assert (view.verdict.action, view.verdict.count) == ("reminder", 2)


def test_arguments_that_break_the_schema_in_another_way_are_another_failure() -> None:
    def refused(arguments: dict[str, Any]) -> str:
        with pytest.raises(ValidationError) as caught:
            InvalidArguments.model_validate(arguments)
        return signature(invalid_arguments("invalid", violations_of(caught.value)))

    assert refused({}) == refused({})
    assert refused({}) != refused({"tool": "x", "odd": 1})
