"""A workflow whose steps fail can be cancelled, also where workflows that are stuck are not ended otherwise."""

import asyncio
from typing import Any

import httpx
import pytest
from temporalio.client import Client
from temporalio.runtime import Runtime

from outlast.activities.stuck_tasks.assess import reported
from outlast.activities.stuck_tasks.contracts import END_STUCK, EndStuckInput, StuckLimits, end_stuck_id
from outlast.worker.stuck_tasks import StuckWorkflows
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from tests.support.calls import batches
from tests.support.calls.tasks import events, poison, result_of, sleeper_call, started
from tests.support.calls.turns import named, new_session, sent, streamed
from tests.support.calls.webhooks import received, subscribed
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import KNOWS_TASKS, MODERN, Wire
from tests.support.http.webhooks import receiving_webhooks
from tests.support.processes.terminal import outlast_command
from tests.support.providers.script import Hold, in_order, says
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture, temporal_fixture
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment

pytestmark = pytest.mark.slow

service = service_fixture(
    scope="module",
    settings_from="environment",
    settings={"OUTLAST_STUCK_AFTER_SECONDS": "0", "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true"},
)
provider = provider_fixture()
sandbox = sandbox_fixture()
api = http_fixture()
temporal = temporal_fixture()
WORDS = "It was cancelled, and could not end by itself: a step of its workflow has failed"


@pytest.fixture(scope="module")
def environment(provider: ProviderServer) -> dict[str, str]:
    return dict(provider.environment)


async def gets_stuck(temporal: Client, workflow_id: str, activity_type: str) -> None:
    """Make the workflow fail, and wait until it has failed twice in the same step."""

    async def fails() -> bool:
        description = await temporal.get_workflow_handle(workflow_id).describe()
        return description.raw_description.pending_workflow_task.attempt > 2

    await poison(temporal, workflow_id, activity_type)
    await eventually(fails)


async def run_of(api: httpx.AsyncClient, task_id: str) -> str:
    async def run() -> str | None:
        return ((await api.get(f"/v1/tasks/{task_id}")).json().get("run") or {}).get("run_id")

    return await eventually(run)


async def cancelled(api: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """What the API shows of it, when it is cancelled."""

    async def is_cancelled() -> dict[str, Any] | None:
        shown = (await api.get(path)).json()
        assert shown["status"] == "cancelled", shown
        return shown

    return await eventually(is_cancelled, interval_seconds=0.1)


async def test_tasks_that_are_stuck_are_cancelled_by_every_entry_point(
    api: httpx.AsyncClient, service: Service, temporal: Client, sandbox: Sandbox
) -> None:
    tasks = [await started(api, sleeper_call(600)) for _ in range(4)]
    runs = [await run_of(api, task_id) for task_id in tasks]
    by_rest, by_command, by_tool, by_method = tasks
    await asyncio.gather(*(gets_stuck(temporal, task_id, "wait_for_run") for task_id in tasks))
    answer = await api.post(f"/v1/tasks/{by_rest}/cancel")
    assert answer.status_code == 202
    assert "a step of the workflow fails" in answer.json()["status_message"]
    command = outlast_command("tasks", "cancel", by_command)
    process = await asyncio.create_subprocess_exec(*command, env=clean_environment(OUTLAST_URL=service.api_url))
    assert await process.wait() == 0
    wire = Wire(api, MODERN)
    await wire.request("tools/call", {"name": "cancel-task", "arguments": {"taskId": by_tool}})
    await wire.request("tasks/cancel", {"taskId": by_method}, capabilities=KNOWS_TASKS)
    for task_id, run_id in zip(tasks, runs, strict=True):
        shown = await cancelled(api, f"/v1/tasks/{task_id}")
        assert shown["status_message"].startswith(WORDS)
        error = (await result_of(api, task_id))["result"]["error"]
        assert (error["category"], error["message"]) == ("cancelled", shown["status_message"])
        told = [event.data async for event in events(api, task_id) if event.name == "task_completed"]
        assert (told[-1]["status"], told[-1]["error"]["message"]) == ("cancelled", error["message"])
        await eventually(lambda run_id=run_id: sandbox.run(run_id)["status"] == "ABORTED")
    listed = (await api.get("/v1/tasks", params={"page_size": 4})).json()["tasks"]
    assert {one["id"]: one["status"] for one in listed} == dict.fromkeys(tasks, "cancelled")


async def test_a_stuck_task_whose_end_was_tried_too_early_is_ended_later(
    api: httpx.AsyncClient, temporal: Client
) -> None:
    task_id = await started(api, sleeper_call(600))
    await gets_stuck(temporal, task_id, "wait_for_run")
    await eventually(lambda: _is_reported(temporal, task_id))
    run_id = (await temporal.get_workflow_handle(task_id).describe()).run_id or ""
    early = await temporal.start_workflow(
        END_STUCK,
        EndStuckInput(workflow_id=task_id, run_id=run_id, grace_seconds=3),  # ends only what was cancelled
        id=end_stuck_id(task_id),
        task_queue=TOOLS_TASK_QUEUE,
    )
    stuck = StuckWorkflows(temporal, StuckLimits(attempts=2, after_seconds=0), Runtime.default())
    await stuck.look()
    await early.result()
    await stuck.look()
    assert (await result_of(api, task_id))["result"]["error"]["category"] == "unknown"


async def _is_reported(temporal: Client, workflow_id: str) -> bool:
    return workflow_id in [one.id async for one in reported(temporal)]


async def test_a_cancelled_task_that_gets_stuck_while_it_ends_is_ended_and_its_webhook_notified(
    api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    with receiving_webhooks() as receiver:
        await subscribed(api, receiver.url, "task.cancelled")
        task_id = await started(api, sleeper_call(600))
        run_id = await run_of(api, task_id)
        sandbox.order_fault("status", method="POST", path="/abort$", status=503)
        assert (await api.post(f"/v1/tasks/{task_id}/cancel")).status_code == 202
        await poison(temporal, task_id, "abort_run")
        sandbox.clear_faults()
        assert (await cancelled(api, f"/v1/tasks/{task_id}"))["status_message"].startswith(WORDS)
        assert (await received(receiver, task_id, "task.cancelled")).body["data"]["status"] == "cancelled"
        await eventually(lambda: sandbox.run(run_id)["status"] == "ABORTED")


async def test_a_batch_that_is_stuck_is_cancelled_and_so_are_its_items(
    api: httpx.AsyncClient, temporal: Client, sandbox: Sandbox
) -> None:
    before = len(sandbox.counters["operations"])
    batch_id = await batches.begun(api, batches.sleepers(3, 600, concurrency=1))
    await eventually(lambda: len(sandbox.counters["operations"]) > before)
    await gets_stuck(temporal, batch_id, "carry_on_batch")
    answer = await api.post(f"/v1/batches/{batch_id}/cancel")
    assert answer.status_code == 202
    assert "a step of the workflow fails" in answer.json()["status_message"]
    batch = await batches.ended(api, batch_id)
    assert (batch["status"], batch["stopped_by"]) == ("cancelled", "cancelled")
    (item,) = (await api.get("/v1/tasks", params={"batch_id": batch_id})).json()["tasks"]
    assert item["status"] == "cancelled"


async def test_a_turn_that_is_stuck_is_cancelled_and_its_session_takes_the_next_message(
    api: httpx.AsyncClient, temporal: Client, provider: ProviderServer
) -> None:
    provider.script = in_order(says("Wait", Hold("stuck")), says("Well."))
    session = await new_session(api)
    seen: list[Any] = []
    turn = ""
    async for event in streamed(api, session, "Hello?"):
        seen.append(event)
        if len(named(seen, "text-delta")) == 1 and event.name == "text-delta":
            turn = (await api.get(f"/v1/sessions/{session}")).json()["running"]
            running = temporal.list_workflows("WorkflowType = 'TurnWorkflow' AND ExecutionStatus = 'Running'")
            (workflow_id,) = [one.id async for one in running]
            await gets_stuck(temporal, workflow_id, "call_model")
            assert (await api.post(f"/v1/sessions/{session}/turns/{turn}/cancel")).status_code == 202
    provider.gate("stuck").open()
    (error,), (finish,) = named(seen, "error"), named(seen, "finish")
    assert error["message"].startswith(WORDS)
    assert finish["status"] == "cancelled"
    assert (await api.get(f"/v1/sessions/{session}/turns/{turn}")).json()["status"] == "cancelled"
    assert (await sent(api, session, "And now?"))["text"] == "Well."
