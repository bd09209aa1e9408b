"""Durable steps and waits of a tool's function: what is recorded is not repeated, and waits outlive the activity."""

import base64
import re
from pathlib import Path
from typing import Any

import httpx
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client

from outlast.workflows.tools.framework.journal import digest_of
from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import text_of
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.stacks.service import Service

service = service_fixture(scope="module", tools=["tests.support.tools.step_tools"])
api = http_fixture()


def call(tool: str, folder: Path, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": {"folder": str(folder), **arguments}}


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().splitlines()


async def details_of(client: Client, workflow_id: str) -> str:
    """What the Temporal UI shows as current details."""
    metadata = await client.get_workflow_handle(workflow_id).query(
        "__temporal_workflow_metadata", result_type=WorkflowMetadata
    )
    return metadata.current_details


async def test_an_attempt_continues_after_the_last_recorded_step(api: httpx.AsyncClient, tmp_path: Path) -> None:
    answer = await completed(api, call("purchase", tmp_path, hiccups=2))
    assert answer["result"]["structured"] == {"result": ["reserve", "charge", "ship"]}
    assert ran(tmp_path) == ["reserve", "charge", "ship"]


async def test_a_history_does_not_have_plain_digests_of_arguments(
    api: httpx.AsyncClient, service: Service, tmp_path: Path
) -> None:
    task_id = await started(api, call("purchase", tmp_path, hiccups=1))
    await result_of(api, task_id)
    client = await Client.connect(service.temporal_address)
    history = (await client.get_workflow_handle(task_id).fetch_history()).to_json()
    payloads = (base64.b64decode(data).decode() for data in re.findall(r'"data": "([^"]+)"', history))
    recorded = re.findall(r'"digest": *"([0-9a-f]{64})"', "\n".join(payloads))
    assert recorded
    assert digest_of(((str(tmp_path), "reserve"), {})) not in recorded


async def test_blocking_functions_have_steps_and_waits(api: httpx.AsyncClient, tmp_path: Path) -> None:
    answer = await completed(api, call("blocking_order", tmp_path))
    assert answer["result"]["structured"] == {"result": ["reserve", "ship"]}
    assert ran(tmp_path) == ["reserve", "ship"]


async def test_a_step_with_other_arguments_is_an_error_of_the_call(api: httpx.AsyncClient, tmp_path: Path) -> None:
    answer = await completed(api, call("changing", tmp_path))
    error = answer["result"]["error"]
    assert error["category"] == "conflict"
    assert "does not match the journal" in error["message"]
    assert ran(tmp_path) == ["attempt 1"]


async def test_questions_sleeps_and_approvals_take_no_activity(
    api: httpx.AsyncClient, service: Service, tmp_path: Path
) -> None:
    task_id = await started(api, call("booking", tmp_path))
    task = await asks(api, task_id)
    question = task["input_requests"]["question-2"]
    assert question["message"] == "Which seat?"
    assert question["requested_schema"]["properties"]["answer"]["enum"] == ["window", "aisle"]
    client = await Client.connect(service.temporal_address)
    described = await client.get_workflow_handle(task_id).describe()
    assert not described.raw_description.pending_activities
    assert "for an answer of the client: Which seat?" in await details_of(client, task_id)
    refused = await api.post(
        f"/v1/tasks/{task_id}/input", json={"answers": {"question-2": {"content": {"answer": "roof"}}}}
    )
    assert refused.status_code == 422
    await taken(api, task, {"answer": "aisle"})

    async def approval() -> dict[str, Any] | None:
        task = (await api.get(f"/v1/tasks/{task_id}")).json()
        return task if "approval-4" in (task.get("input_requests") or {}) else None

    waiting = await eventually(approval)
    assert waiting["input_requests"]["approval-4"]["message"] == "Pay for the aisle seat?"
    assert waiting["input_requests"]["approval-4"]["handoff"]["parameters"] == {"arguments": {"price": 30}}
    details = await details_of(client, task_id)
    assert details.startswith("Waits until ")
    assert "UTC for an approval: Pay for the aisle seat?" in details
    await taken(api, waiting, {"decision": "yes"})
    assert text_of((await result_of(api, task_id))["result"]) == "Booked a aisle seat, approved by local."
    assert ran(tmp_path) == ["search", "pay"]


async def test_an_approval_that_is_refused_can_be_caught(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("booking", tmp_path))
    await taken(api, await asks(api, task_id), {"answer": "window"})
    await taken(api, await asks(api, task_id), {"decision": "no"})
    assert text_of((await result_of(api, task_id))["result"]) == "The window seat was not booked."
    assert ran(tmp_path) == ["search"]


async def test_a_declined_question_is_the_answer_of_the_call(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("booking", tmp_path))
    await taken(api, await asks(api, task_id), action="decline")
    error = (await result_of(api, task_id))["result"]["error"]
    assert error["category"] == "permission"
    assert "Which seat?" in error["message"]


async def test_waits_that_are_reached_together_are_open_together(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("everything_at_once", tmp_path))

    async def both() -> dict[str, Any] | None:
        requests = (await api.get(f"/v1/tasks/{task_id}")).json().get("input_requests") or {}
        return requests if len(requests) == 2 else None

    keys = sorted(await eventually(both))
    answers = {key: {"content": {"answer": number}} for number, key in enumerate(keys, start=40)}
    assert (await api.post(f"/v1/tasks/{task_id}/input", json={"answers": answers})).status_code == 200
    assert text_of((await result_of(api, task_id))["result"]) == "81"
    assert ran(tmp_path) == ["beside"]


async def test_a_waiting_call_is_cancelled_like_any_other(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("booking", tmp_path))
    await asks(api, task_id)
    await api.post(f"/v1/tasks/{task_id}/cancel")

    async def is_cancelled() -> bool:
        return (await api.get(f"/v1/tasks/{task_id}")).json()["status"] == "cancelled"

    await eventually(is_cancelled)
