"""Retries that cannot succeed end and say what is known; those that may say what they wait for."""

import asyncio
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from tests.support.calls.tasks import result_of, started
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox

pytestmark = pytest.mark.slow

SLEEPER: dict[str, Any] = {"tool": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 600}}}
PATIENCE_SECONDS = 120
"""Five attempts with their pauses take half a minute, twice where a run is then aborted."""


async def task_of(api: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    return (await api.get(f"/v1/tasks/{task_id}")).json()


async def followed_run(api: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    """The run of a task, which a worker follows."""

    async def followed() -> dict[str, Any] | None:
        task = await task_of(api, task_id)
        return task["run"] if (task.get("status_message") or "").startswith("Slept") else None

    return await eventually(followed, timeout_seconds=PATIENCE_SECONDS)


async def error_of(api: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    """The error with which a task has ended."""

    async def ended() -> bool:
        return (await task_of(api, task_id))["status"] == "failed"

    await eventually(ended, timeout_seconds=PATIENCE_SECONDS)
    return (await result_of(api, task_id))["result"]["error"]


async def a_read_that_is_never_answered_in_json_ends(api: httpx.AsyncClient) -> None:
    task_id = await started(api, {"tool": "get-dataset-items", "arguments": {"datasetId": "abcdefghijklmnopq"}})
    error = await error_of(api, task_id)
    assert "A response is not valid JSON" in error["message"]
    assert "in the same way 5 times" in error["message"]
    assert error["retryable"] is False


async def a_run_that_cannot_be_followed_ends_with_what_is_known(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    """The platform answers in another form; its later answers, to the abort, are readable."""
    task_id = await started(api, SLEEPER)
    run = await followed_run(api, task_id)
    sandbox.order_fault("replace", path=f"/actor-runs/{run['run_id']}$", method="GET", body='{"data": {}}', times=5)
    error = await error_of(api, task_id)
    assert error["message"].startswith(f"Run {run['run_id']} could not be followed to its end. The platform's response")
    assert f"Run {run['run_id']} is ABORTED. Its output is in dataset {run['dataset_id']}" in error["hint"]
    assert sandbox.run(run["run_id"])["status"] == "ABORTED"


async def rows_that_cannot_be_read_are_named_with_their_paid_run(api: httpx.AsyncClient) -> None:
    call: dict[str, Any] = {**SLEEPER, "arguments": {**SLEEPER["arguments"], "input": {"seconds": 0.1, "steps": 1}}}
    task_id = await started(api, call)
    error = await error_of(api, task_id)
    run = (await task_of(api, task_id))["run"]
    assert f"Run {run['run_id']} ended as SUCCEEDED, and its rows could not be read." in error["message"]
    assert f"They are in dataset {run['dataset_id']}" in error["hint"]


async def an_outage_is_waited_for_and_told(api: httpx.AsyncClient, sandbox: Sandbox, temporal: Client) -> None:
    task_id = await started(api, SLEEPER)
    run = await followed_run(api, task_id)
    sandbox.order_fault("status", path=f"/actor-runs/{run['run_id']}", status=503, times=5)

    async def told() -> bool:
        message = (await task_of(api, task_id)).get("status_message") or ""
        return message.startswith("Attempt ") and "The platform answered 503" in message

    await eventually(told, timeout_seconds=PATIENCE_SECONDS)

    async def shown() -> bool:
        metadata = await temporal.get_workflow_handle(task_id).query("__temporal_workflow_metadata")
        return "wait_for_run has failed 5 times in the same way" in metadata.current_details

    await eventually(shown, timeout_seconds=PATIENCE_SECONDS)
    assert (await followed_run(api, task_id))["run_id"] == run["run_id"]
    await api.post(f"/v1/tasks/{task_id}/cancel")


async def test_retries_end_with_what_is_known_or_say_what_they_wait_for(
    api: httpx.AsyncClient, sandbox: Sandbox, temporal: Client
) -> None:
    """All at once, since each takes as long as its pauses."""
    sandbox.order_fault("replace", path="/datasets/[^/]+/items", body="<html>A proxy</html>")
    await asyncio.gather(
        a_read_that_is_never_answered_in_json_ends(api),
        a_run_that_cannot_be_followed_ends_with_what_is_known(api, sandbox),
        rows_that_cannot_be_read_are_named_with_their_paid_run(api),
        an_outage_is_waited_for_and_told(api, sandbox, temporal),
    )
