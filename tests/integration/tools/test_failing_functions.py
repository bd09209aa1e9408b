"""Errors of functions under `@tool` for the caller without a credential on the machine of the stack."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, Wire, WireError
from tests.support.stacks.fixtures import http_fixture, service_fixture
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
