"""Calls that cannot go on, or whose errors and answers are larger than Temporal takes: each ends, and says why."""

import asyncio
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.workflows.contracts.sessions import POSTED_SIGNAL, session_workflow_id
from tests.support.calls.tasks import completed, events, result_of, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN, Wire, text_of
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.fixtures import service_fixture, temporal_fixture
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment

service = service_fixture(
    scope="module",
    tools=["tests.support.tools.poisonous_tools"],
    settings={"OUTLAST_STUCK_ATTEMPTS": "2", "OUTLAST_STUCK_AFTER_SECONDS": "1"},
)
temporal = temporal_fixture()


def statuses(service: Service) -> list[str]:
    headers = {"Authorization": f"Bearer {service.sandbox.token}"}
    runs = httpx.get(f"{service.sandbox.url}/v2/actor-runs", headers=headers, trust_env=False).json()["data"]["items"]
    return [run["status"] for run in runs]


async def test_a_task_that_cannot_go_on_ends_with_an_error_and_its_run_is_aborted(
    api: httpx.AsyncClient, service: Service, temporal: Client
) -> None:
    assert (await api.post("/v1/sessions", json={"sessionId": "stuck"})).status_code == 201
    # A signal without what belongs to it: no handler can take it, and none can be left out.
    await temporal.get_workflow_handle(session_workflow_id("local", "stuck")).signal(POSTED_SIGNAL)
    task_id = await started(api, {"tool": "spin", "session_id": "spinning"})
    # The history of this one has the result of the start, that of the other one an activity.
    later_id = await started(api, {"tool": "spin-later"})

    async def ended() -> bool:
        tasks = [(await api.get(f"/v1/tasks/{one}")).json() for one in (task_id, later_id)]
        return all(task["status"] == "failed" for task in tasks)

    await eventually(ended)
    error = (await result_of(api, task_id))["result"]["error"]
    assert "could not go on: a step of its workflow has failed" in error["message"]
    assert "deadlock" in error["message"].lower()
    assert (error["tool"], error["category"], error["retryable"]) == ("spin", "unknown", False)
    await eventually(lambda: statuses(service) == ["ABORTED", "ABORTED"])
    told = [event.data async for event in events(api, task_id) if event.name == "task_completed"]
    assert told[-1]["error"]["message"] == error["message"]
    shown = await Wire(api, MODERN).request("tools/call", {"name": "get-task", "arguments": {"taskId": task_id}})
    assert "could not go on" in text_of(shown)
    assert "could not go on" in await printed(service, "tasks", "result", task_id)
    assert (await eventually(lambda: gone(api, "stuck"))).startswith("Session 'stuck' is over. It could not go on")
    assert (await api.post("/v1/sessions", json={"sessionId": "stuck"})).status_code == 201, "another one"
    async with httpx.AsyncClient(trust_env=False) as http:
        metrics = (await http.get(service.worker_metrics_url)).text
    assert "outlast_stuck_workflows_ended{" in metrics or "outlast_stuck_workflows_ended_total{" in metrics


async def printed(service: Service, *command: str) -> str:
    """What a command of the command line prints, without its line breaks."""
    process = await asyncio.create_subprocess_exec(
        *outlast_command(*command), env=clean_environment(OUTLAST_URL=service.api_url), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return " ".join(output.decode().split())


async def gone(api: httpx.AsyncClient, session: str) -> str | None:
    answer = await api.get(f"/v1/sessions/{session}")
    return answer.json()["detail"] if answer.status_code == 410 else None


@pytest.mark.parametrize("tool", ["throw", "throw-here"])
async def test_an_error_of_5_mb_is_an_ordinary_failure(api: httpx.AsyncClient, temporal: Client, tool: str) -> None:
    answer = await completed(api, {"tool": tool, "arguments": {"megabytes": 5}})
    assert answer["task"]["status"] == "failed"
    assert 0 < len(answer["result"]["error"]["message"]) <= 2_000
    history = await temporal.get_workflow_handle(answer["task"]["id"]).fetch_history()
    assert sum(event.ByteSize() for event in history.events) < 50_000


async def test_a_function_may_answer_with_5_mb(api: httpx.AsyncClient) -> None:
    answer = await completed(api, {"tool": "answer", "arguments": {"megabytes": 5}})
    assert answer["task"]["status"] == "completed"
    assert answer["result"]["locator"].startswith("out_")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"megabytes": 50}, "bytes; the limit is 16777216"),
        ({"megabytes": 8, "values": True}, "more than 50000 values"),
    ],
    ids=["bytes", "values"],
)
async def test_an_answer_that_no_workflow_can_decode_is_refused(
    api: httpx.AsyncClient, arguments: dict[str, Any], reason: str
) -> None:
    answer = await completed(api, {"tool": "answer", "arguments": arguments})
    assert answer["task"]["status"] == "failed"
    assert reason in answer["result"]["error"]["message"]


async def test_an_id_that_fits_no_address_is_refused_before_anything_starts(api: httpx.AsyncClient) -> None:
    refused = await api.post("/v1/tasks", json={"tool": "get-actor-run", "arguments": {"runId": "x" * 100_000}})
    assert refused.status_code == 422
    assert "200 characters" in refused.json()["error"]["violations"][0]["message"]
