"""Errors of functions under `@tool` for the caller without a credential on the machine of the stack."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from tests.support.calls.tasks import completed, events, result_of, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, Wire, WireError
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.stacks.service import Service
from tests.support.tools import failing_tools

service = service_fixture(scope="module", tools=[failing_tools.__name__], callers={})
api = http_fixture()


def attempts_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def error_of(api: httpx.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    return (await completed(api, {"tool": tool, "arguments": arguments}))["result"]["error"]


async def test_an_exception_is_shown_with_its_line_and_without_secrets(api: httpx.AsyncClient) -> None:
    error = await error_of(api, "mistaken")
    line = failing_tools.mistaken.function.__code__.co_firstlineno + 3
    assert error["message"].startswith(f"The tool failed in {failing_tools.__file__}:{line}: KeyError: ")
    assert "hunter2" not in str(error)
    assert "logs/worker.log" in error["hint"]


async def test_a_value_that_does_not_fit_a_model_is_not_retried(api: httpx.AsyncClient, tmp_path: Path) -> None:
    error = await error_of(api, "misfit", folder=str(tmp_path))
    assert "ValidationError: Weather.degrees: Input should be a valid number" in error["message"]
    assert (error["category"], error["retryable"]) == ("unknown", False)
    assert attempts_in(tmp_path) == 1


async def test_a_time_limit_is_named_with_its_option(api: httpx.AsyncClient) -> None:
    error = await error_of(api, "endless")
    assert error["message"].startswith("endless did not end within the time limit of one attempt. It is unknown")
    assert "The limit is the option `timeout` of the tool, 1 seconds." in error["hint"]
    assert (error["category"], error["retryable"]) == ("outcome_unknown", False), "its retries are 0"


async def test_errors_of_the_network_that_derive_from_oserror_are_retried(
    api: httpx.AsyncClient, tmp_path: Path
) -> None:
    error = await error_of(api, "unreachable", folder=str(tmp_path))
    assert (error["category"], attempts_in(tmp_path)) == ("network", 3)


async def test_a_cancelled_task_without_a_run_does_not_mention_one(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, {"tool": "stubborn", "arguments": {"folder": str(tmp_path)}})
    await eventually((tmp_path / "begun").exists)
    await api.post(f"/v1/tasks/{task_id}/cancel")

    async def message() -> str | None:
        return (await api.get(f"/v1/tasks/{task_id}")).json().get("status_message")

    assert await eventually(message) == "Cancelling: waiting until the tool's function has ended."
    (tmp_path / "go").touch()
    await result_of(api, task_id)


async def test_mcp_says_in_the_message_which_tool_may_be_meant(api: httpx.AsyncClient) -> None:
    """Many clients show the message only, and not its data."""
    wire = Wire(api, LEGACY)
    await wire.initialize()
    with pytest.raises(WireError, match=r"There is no tool 'mistakn'\. Did you mean mistaken"):
        await wire.request("tools/call", {"name": "mistakn", "arguments": {}})


@pytest.mark.parametrize("chars", [10, 4_000])
async def test_the_workflow_of_a_failed_task_has_failed_and_its_answer_is_whole(
    api: httpx.AsyncClient, service: Service, chars: int
) -> None:
    task_id = await started(api, {"tool": "refusing", "arguments": {"chars": chars}})
    answer = await result_of(api, task_id)
    assert (answer["task"]["status"], answer["result"]["is_error"]) == ("failed", True)
    assert answer["result"]["structured"] == {"chars": chars}
    assert answer["result"]["content"][0]["text"] == "x" * chars
    assert answer["task"]["status_message"].startswith("xxxxxxxxxx")

    client = await Client.connect(service.temporal_address)
    description = await client.get_workflow_handle(task_id).describe()
    assert description.status is WorkflowExecutionStatus.FAILED

    ends = [event.data["status"] async for event in events(api, task_id) if event.name == "task_completed"]
    assert ends == ["failed"]
    listed = (await api.get("/v1/tasks", params={"status": "failed", "tool": "refusing"})).json()["tasks"]
    assert task_id in [task["id"] for task in listed]


async def test_the_failure_of_a_workflow_says_what_failed_and_what_to_do(
    api: httpx.AsyncClient, service: Service
) -> None:
    task_id = await started(api, {"tool": "endless"})
    await result_of(api, task_id)
    client = await Client.connect(service.temporal_address)
    with pytest.raises(WorkflowFailureError) as failed:
        await client.get_workflow_handle(task_id).result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.message.startswith("outcome_unknown: endless did not end within the time limit")
    assert "The limit is the option `timeout` of the tool" in failed.value.cause.message


async def test_a_function_learns_the_error_of_a_task_that_it_has_called(api: httpx.AsyncClient) -> None:
    answer = await completed(api, {"tool": "asking_refusing"})
    assert answer["result"]["structured"]["category"] == "unknown"
    called = (await api.get(f"/v1/tasks/{answer['result']['structured']['task']}")).json()
    assert called["status"] == "failed"
