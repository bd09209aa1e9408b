"""Arguments and results above 256 KB: kept in the output store, whoever dies meanwhile, and missed out loud."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Replayer, Worker

from outlast.activities.object_store import OutputObjects, payloads_prefix
from outlast.worker.connection import OutlastPlugin
from outlast.worker.payloads import PayloadLost
from outlast.workflows.tool_call import ToolCallWorkflow
from tests.support.calls.tasks import WAIT, completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service
from tests.support.tools.large_payloads import DoublingWorkflow, LocallyDoublingWorkflow, double

pytestmark = pytest.mark.slow

FIVE_MB = "y" * 5_000_000
OF_AN_ANSWER = {"tool": "repeat-word", "arguments": {"word": "a large answer ", "times": 200_000}}


# It answers in full, whatever the size.
service = service_fixture(
    scope="module",
    tools=["tests.support.tools.large_payloads"],
    # The front door's own limit on values stands aside: what is behind it has to hold too.
    settings={
        "OUTLAST_COMPRESSION": "false",
        "OUTLAST_OUTPUT_INLINE_LIMIT_BYTES": "10000000",
        "OUTLAST_MAX_BODY_VALUES": "10000000",
    },
)


@pytest.fixture
def objects(service: Service) -> OutputObjects:
    """The store of the service."""
    return OutputObjects.open(str(service.outputs))


@pytest.fixture
async def temporal(service: Service, objects: OutputObjects) -> Client:
    return await connect(service.temporal_address, objects=objects)


@pytest.fixture
async def doubling(temporal: Client, request: pytest.FixtureRequest) -> AsyncIterator[WorkflowHandle[Any, str]]:
    """A workflow with 1.5 MB of arguments and twice as much of a result, which waits to be let go."""
    name = f"doubling-{request.node.name}"
    worker = Worker(
        temporal, task_queue=name, workflows=[DoublingWorkflow], activities=[double], max_cached_workflows=0
    )
    async with worker:
        yield await temporal.start_workflow(DoublingWorkflow.run, FIVE_MB[:1_500_000], id=name, task_queue=name)


async def kept(objects: OutputObjects, workflow_id: str) -> list[str]:
    """Keys of what is stored of a workflow."""
    return [entry.key async for entry in objects.list(payloads_prefix("default", workflow_id))]


async def history_bytes(temporal: Client, workflow_id: str) -> int:
    history = await temporal.get_workflow_handle(workflow_id).fetch_history()
    return sum(event.ByteSize() for event in history.events)


async def test_a_call_with_5_mb_of_arguments_is_answered(
    api: httpx.AsyncClient, temporal: Client, objects: OutputObjects
) -> None:
    answer = await completed(api, sleeper_call(0, rows=3, filler=FIVE_MB))
    task_id = answer["task"]["id"]
    assert answer["task"]["status"] == "completed"
    assert await history_bytes(temporal, task_id) < 50_000
    assert len(await kept(objects, task_id)) == 1, "the large field of the input"


@pytest.mark.thorough
async def test_an_input_of_two_million_values_is_passed_on_unread(
    api: httpx.AsyncClient, temporal: Client, service: Service
) -> None:
    filler = [{}] * 2_600_000
    task = (await completed(api, sleeper_call(0, filler=filler)))["task"]
    assert task["status"] == "completed"
    history = await temporal.get_workflow_handle(task["id"]).fetch_history()
    assert not any(event.HasField("workflow_task_failed_event_attributes") for event in history.events)
    record = f"{service.sandbox.url}/v2/key-value-stores/{task['run']['key_value_store_id']}/records/INPUT"
    async with httpx.AsyncClient(trust_env=False, timeout=180) as platform:
        stored = await platform.get(record, headers={"Authorization": f"Bearer {service.sandbox.token}"})
    assert stored.json()["filler"] == filler


async def test_many_values_that_a_workflow_would_have_to_decode_are_refused(api: httpx.AsyncClient) -> None:
    call = {"tool": "count-values", "arguments": {"values": [{}] * 60_000}}
    refused = await api.post("/v1/tasks", json=call)
    assert (refused.status_code, refused.json()["title"]) == (413, "The arguments are too large")
    assert "more than 50000 values" in refused.json()["detail"]
    call["arguments"] = {"values": ["y" * 2_000_000]}
    assert "the limit is 1048576" in (await api.post("/v1/tasks", json=call)).json()["detail"]


async def test_an_answer_of_3_mb_arrives_whole_and_again(api: httpx.AsyncClient, temporal: Client) -> None:
    answer = await completed(api, OF_AN_ANSWER)
    text = answer["result"]["content"][0]["text"]
    assert text == "a large answer " * 200_000
    again = await result_of(api, answer["task"]["id"])
    assert again["result"]["content"][0]["text"] == text
    assert await history_bytes(temporal, answer["task"]["id"]) < 50_000


async def noted(handle: WorkflowHandle[Any, str]) -> str | None:
    """What the workflow keeps in its memo."""
    return await (await handle.describe()).memo_value("doubled", None, type_hint=str)


async def test_an_activity_result_and_a_memo_above_2_mb_are_kept_in_the_store(
    temporal: Client, doubling: WorkflowHandle[Any, str]
) -> None:
    assert await eventually(lambda: noted(doubling)) == FIVE_MB[:3_000_000]
    await doubling.signal(DoublingWorkflow.let_go)
    assert await doubling.result() == FIVE_MB[:3_000_000]
    assert await history_bytes(temporal, doubling.id) < 20_000


async def test_a_local_activity_result_above_2_mb_is_kept_in_the_store(
    temporal: Client, objects: OutputObjects
) -> None:
    workflows, name = [LocallyDoublingWorkflow], "locally-doubling"
    async with Worker(temporal, task_queue=name, workflows=workflows, activities=[double], max_cached_workflows=0):
        doubling = await temporal.start_workflow(
            LocallyDoublingWorkflow.run, FIVE_MB[:1_500_000], id=name, task_queue=name
        )
        assert await doubling.result() == 3_000_000
    assert await history_bytes(temporal, name) < 20_000
    assert len(await kept(objects, name)) == 2, "the argument and the result in the marker"


async def test_a_replay_reads_stored_payloads_and_writes_none(
    doubling: WorkflowHandle[Any, str], objects: OutputObjects
) -> None:
    await doubling.signal(DoublingWorkflow.let_go)
    await doubling.result()
    history = await doubling.fetch_history()
    before = {entry.key async for entry in objects.list("payloads")}
    await Replayer(workflows=[DoublingWorkflow], plugins=[OutlastPlugin(objects)]).replay_workflow(history)
    assert {entry.key async for entry in objects.list("payloads")} == before
    with pytest.raises(RuntimeError, match="external storage is not configured"):
        await Replayer(workflows=[DoublingWorkflow], plugins=[OutlastPlugin()]).replay_workflow(history)


async def test_a_recorded_tool_call_with_5_mb_replays(
    api: httpx.AsyncClient, temporal: Client, objects: OutputObjects
) -> None:
    answer = await completed(api, sleeper_call(0, filler=FIVE_MB))
    history = await temporal.get_workflow_handle(answer["task"]["id"]).fetch_history()
    await Replayer(workflows=[ToolCallWorkflow], plugins=[OutlastPlugin(objects)]).replay_workflow(history)


async def test_a_payload_that_is_gone_or_damaged_is_missed_out_loud(
    api: httpx.AsyncClient, temporal: Client, objects: OutputObjects
) -> None:
    task_id = (await completed(api, OF_AN_ANSWER))["task"]["id"]
    [key] = await kept(objects, task_id)
    whole = await objects.get(key)
    assert whole is not None
    await objects.put(key, whole[:-1] + b"!")
    assert "damaged" in await refusal(api, task_id)
    await objects.delete([key])
    assert "missing" in await refusal(api, task_id)
    with pytest.raises(PayloadLost, match=key):
        await temporal.get_workflow_handle(task_id).result()
    await objects.put(key, whole)
    assert (await api.get(f"/v1/tasks/{task_id}/result")).status_code == 200


async def refusal(api: httpx.AsyncClient, task_id: str) -> str:
    response = await api.get(f"/v1/tasks/{task_id}/result")
    assert (response.status_code, response.json()["title"]) == (410, "Stored data of the task is lost")
    return response.json()["detail"]


async def test_a_workflow_whose_payload_is_missing_says_so_and_goes_on_once_it_is_back(
    doubling: WorkflowHandle[Any, str], objects: OutputObjects
) -> None:
    await eventually(lambda: noted(doubling))
    before = {key: await objects.get(key) for key in await kept(objects, doubling.id)}
    await objects.delete(list(before))
    await doubling.signal(DoublingWorkflow.let_go)

    async def complaint() -> str | None:
        failed = [event.workflow_task_failed_event_attributes async for event in doubling.fetch_history_events()]
        return next((one.failure.message for one in failed if "is not in the store" in one.failure.message), None)

    assert "OUTLAST_STORE_URL" in await eventually(complaint)
    for key, data in before.items():
        await objects.put(key, data or b"")
    assert await doubling.result() == FIVE_MB[:3_000_000]


async def test_a_task_whose_input_is_missing_says_that_it_is_stuck(tmp_path: Path, sandbox: Sandbox) -> None:
    with ChaosStack(tmp_path, sandbox) as stack:
        await stack.bring_up()
        stack.worker.kill()
        async with httpx.AsyncClient(base_url=stack.api_url, trust_env=False, timeout=180) as api:
            task_id = await started(api, sleeper_call(0, filler=FIVE_MB))
            objects = OutputObjects.open(str(tmp_path / "outputs"))
            [key] = await kept(objects, task_id)
            data = await objects.get(key)
            await objects.delete([key])
            stack.worker.start()

            async def stuck() -> bool:
                task = (await api.get(f"/v1/tasks/{task_id}")).json()
                return "is not in the store" in (task.get("status_message") or "")

            await eventually(stuck, timeout_seconds=180)
            await objects.put(key, data or b"")
            assert (await result_of(api, task_id))["task"]["status"] == "completed"


async def test_a_call_with_5_mb_outlives_its_worker_and_its_api(tmp_path: Path, sandbox: Sandbox) -> None:
    with ChaosStack(tmp_path, sandbox) as stack:
        await stack.bring_up()
        starts = sandbox.counters["startsAccepted"]
        async with httpx.AsyncClient(base_url=stack.api_url, trust_env=False, timeout=180) as api:
            task_id = await started(api, sleeper_call(3, rows=3, filler=FIVE_MB))
            stack.worker.kill()
            stack.api.kill()
            await stack.bring_up()
            await eventually(lambda: sandbox.counters["startsAccepted"] > starts)
            await stack.worker.restart()
            answer = await result_of(api, task_id)
        assert answer["task"]["status"] == "completed"
        assert sandbox.counters["startsAccepted"] == starts + 1


async def test_small_payloads_leave_nothing_in_the_store(api: httpx.AsyncClient, objects: OutputObjects) -> None:
    answer = await completed(api, sleeper_call(0), **WAIT)
    assert await kept(objects, answer["task"]["id"]) == []
