"""The sweep of the output store: what goes, what stays, and that its schedule carries it out."""

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow
from temporalio.service import RPCError

from outlast.activities.failures.exceptions import OutputError
from outlast.activities.object_store import OutputObjects, payloads_prefix
from outlast.activities.outputs.contracts import OutputScope, SweepReport
from outlast.activities.outputs.output_format import OutputManifest
from outlast.activities.outputs.reader import open_output
from outlast.activities.outputs.writer import OutputWriter
from outlast.worker.sweep_schedule import SWEEP_SCHEDULE_ID, ensure_sweep_schedule
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.retention import RetentionInput, RetentionWorkflow
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.stacks.fixtures import http_fixture, service_fixture, temporal_fixture
from tests.support.stacks.service import Service

OVER = timedelta(seconds=-1)
DAY = timedelta(days=1)


# It sweeps at once what is not needed, but only when it is told to.
service = service_fixture(
    scope="module", settings={"OUTLAST_SWEEP_INTERVAL_SECONDS": "86400", "OUTLAST_SWEEP_GRACE_SECONDS": "0"}
)


@pytest.fixture
def store(service: Service) -> Path:
    return service.outputs


@pytest.fixture
def objects(store: Path) -> OutputObjects:
    return OutputObjects.open(str(store))


temporal = temporal_fixture()
api = http_fixture()


async def stored(
    objects: OutputObjects, *, ttl: timedelta, task_id: str = "task-of-long-ago", caller: str = "local", text: str = ""
) -> OutputManifest:
    """An output of the caller, which that task made."""
    scope = OutputScope(caller_id=caller, tool_call_id=f"{task_id}-{text}", task_id=task_id)
    async with OutputWriter(objects, scope, what="content", kind="text") as writer:
        await writer.write(f"What {task_id} made. {text}".encode())
        return await writer.finish(content_type="text/plain", ttl=ttl)


async def sweep(temporal: Client) -> SweepReport:
    """What the schedule's next sweep reports."""
    handle = temporal.get_schedule_handle(SWEEP_SCHEDULE_ID)
    before = (await handle.describe()).info.num_actions
    await handle.trigger()

    async def begun() -> ScheduleActionExecutionStartWorkflow | None:
        info = (await handle.describe()).info
        action = info.recent_actions[-1].action if info.num_actions > before else None
        return action if isinstance(action, ScheduleActionExecutionStartWorkflow) else None

    action = await eventually(begun)
    run: Any = temporal.get_workflow_handle(action.workflow_id, result_type=SweepReport)
    return await run.result()


async def keys(objects: OutputObjects, prefix: str) -> list[str]:
    return sorted([entry.key async for entry in objects.list(prefix)])


async def refusal(objects: OutputObjects, manifest: OutputManifest) -> str | None:
    """Why the output cannot be had; None when it can."""
    try:
        await open_output(objects, manifest.locator, manifest.caller_id)
    except OutputError as refused:
        return refused.reason
    return None


def is_stored(store: Path, manifest: OutputManifest) -> bool:
    return all((store / part.key).exists() for part in manifest.parts)


async def test_an_expired_output_is_removed_and_its_locator_says_why(
    api: httpx.AsyncClient, temporal: Client, objects: OutputObjects, store: Path
) -> None:
    over, young = await stored(objects, ttl=OVER), await stored(objects, ttl=DAY, text="young")
    report = await sweep(temporal)
    assert (report.deleted, report.cursor) == (1 + len(over.parts), None)
    assert report.freed_bytes > over.stored_size
    assert not is_stored(store, over)
    assert is_stored(store, young)
    assert (await refusal(objects, over), await refusal(objects, young)) == ("expired", None)
    response = await api.get(f"/v1/outputs/{over.locator}")
    assert response.status_code in {404, 410}
    assert "expired" in response.text


async def test_a_second_sweep_looks_at_everything_and_removes_nothing(temporal: Client, objects: OutputObjects) -> None:
    await stored(objects, ttl=OVER, text="swept once")
    await stored(objects, ttl=DAY, text="kept")
    assert (await sweep(temporal)).deleted > 0
    again = await sweep(temporal)
    assert (again.deleted, again.freed_bytes) == (0, 0)
    assert again.scanned > 0


async def test_an_expired_output_is_kept_while_its_task_runs(
    api: httpx.AsyncClient, temporal: Client, objects: OutputObjects, store: Path
) -> None:
    task_id = await started(api, sleeper_call(600))
    output = await stored(objects, ttl=OVER, task_id=task_id)
    await sweep(temporal)
    assert is_stored(store, output)
    await end(api, task_id)
    await sweep(temporal)
    assert not is_stored(store, output)
    assert await refusal(objects, output) == "expired"


async def test_an_expired_output_is_kept_while_a_running_task_refers_to_it(
    api: httpx.AsyncClient, temporal: Client, objects: OutputObjects, store: Path
) -> None:
    output = await stored(objects, ttl=OVER, text="in use")
    task_id = await started(api, sleeper_call(600, filler={"deep": [f"see {output.locator}!"]}))
    await visible(temporal, task_id)
    await sweep(temporal)
    assert is_stored(store, output)
    await end(api, task_id)
    await eventually(lambda: swept_away(temporal, store, output))


async def swept_away(temporal: Client, store: Path, output: OutputManifest) -> bool:
    await sweep(temporal)
    return not is_stored(store, output)


async def end(api: httpx.AsyncClient, task_id: str) -> None:
    assert (await api.post(f"/v1/tasks/{task_id}/cancel")).is_success
    await result_of(api, task_id)


async def visible(temporal: Client, task_id: str) -> None:
    async def listed() -> bool:
        query = f"WorkflowId = '{task_id}' AND {search_attributes.LOCATORS.name} IS NOT NULL"
        return bool((await temporal.count_workflows(query)).count)

    await eventually(listed)


async def test_as_many_locators_as_temporal_takes_are_noted(api: httpx.AsyncClient, temporal: Client) -> None:
    names = [f"{number:016d}".translate(LETTERS) for number in range(150)]
    locators = [f"out_{'a' * 13}_{name}{'c' * 16}_{'b' * 6}" for name in names]
    task_id = await started(api, sleeper_call(0, filler=locators))
    description = await temporal.get_workflow_handle(task_id).describe()
    assert sorted(description.typed_search_attributes.get(search_attributes.LOCATORS) or ()) == names[:100]


LETTERS = str.maketrans("0123456789", "abcdefghij")


def kill_a_writer(store: Path, task_id: str) -> None:
    """`kill -9` of a process that has stored a part and was about to store the next."""
    command = [sys.executable, "-m", "tests.support.processes.endless_writer", str(store), task_id]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stored\n"
        process.send_signal(signal.SIGKILL)


async def test_what_a_killed_writer_leaves_is_removed_once_its_task_has_ended(
    api: httpx.AsyncClient, temporal: Client, objects: OutputObjects, store: Path
) -> None:
    task_id = await started(api, sleeper_call(600))
    kill_a_writer(store, task_id)
    staged = store / "parts" / "00000.zst#1"
    staged.write_bytes(b"half a par")
    await sweep(temporal)
    assert any(task_id in key for key in await keys(objects, "parts")), "its task may write on"
    assert not staged.exists()
    await end(api, task_id)
    report = await sweep(temporal)
    assert not any(task_id in key for key in await keys(objects, "parts"))
    assert report.freed_bytes > 1_000_000


async def test_payloads_stay_for_as_long_as_temporal_knows_their_workflow(
    api: httpx.AsyncClient, temporal: Client, objects: OutputObjects
) -> None:
    task_id = (await completed(api, sleeper_call(0, filler="y" * 1_000_000)))["task"]["id"]
    known = await keys(objects, payloads_prefix("default", task_id))
    for key in known:
        await objects.put(key.replace(task_id, "task-forgotten"), await objects.get(key) or b"")
    report = await sweep(temporal)
    assert len(known) == 1, "the large field of the input, kept beside the workflow's payloads"
    assert await keys(objects, payloads_prefix("default", task_id)) == known
    assert await keys(objects, payloads_prefix("default", "task-forgotten")) == []
    assert report.freed_bytes > 1_000_000


async def test_a_long_sweep_continues_as_new_and_counts_all_of_it(temporal: Client, objects: OutputObjects) -> None:
    over = [await stored(objects, ttl=OVER, caller=f"caller-{number}") for number in range(5)]
    handle = await temporal.start_workflow(
        RetentionWorkflow.run,
        RetentionInput(page_size=1, pages_per_run=2),
        id="sweep-in-small-steps",
        task_queue=TOOLS_TASK_QUEUE,
    )
    report = await handle.result()
    assert report.deleted >= 2 * len(over)
    runs = [run async for run in temporal.list_workflows("WorkflowId = 'sweep-in-small-steps'")]
    assert len(runs) >= 3
    assert [await refusal(objects, manifest) for manifest in over] == ["expired"] * 5


async def test_the_schedule_is_what_the_latest_worker_was_told_and_stays_paused(temporal: Client) -> None:
    handle = temporal.get_schedule_handle(SWEEP_SCHEDULE_ID)
    assert (await handle.describe()).schedule.spec.intervals[0].every == DAY
    await handle.pause(note="maintenance")
    await ensure_sweep_schedule(temporal, interval_seconds=7_200)
    changed = (await handle.describe()).schedule
    assert (changed.spec.intervals[0].every, changed.state.paused) == (timedelta(hours=2), True)
    await ensure_sweep_schedule(temporal, interval_seconds=0)
    await ensure_sweep_schedule(temporal, interval_seconds=0)
    with pytest.raises(RPCError, match="not found"):
        await handle.describe()
    await ensure_sweep_schedule(temporal, interval_seconds=86_400)
    assert (await handle.describe()).schedule.state.paused is False
