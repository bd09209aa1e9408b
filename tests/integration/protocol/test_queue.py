"""Tasks beyond a caller's share: queued durably, begun in order, never more at once than the share."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus

from outlast.activities.dispatch.contracts import dispatch_workflow_id
from outlast.api.temporal.history import time_of
from outlast.api.temporal.task_view import QUEUED_MESSAGE
from outlast.cli.checks.machine import check_limits
from outlast.cli.options import Options
from tests.support.calls.tasks import events
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.stacks.api_server import MortalApi
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.service import Service

FLO, GUS = "flo-0123456789abcdef", "gus-0123456789abcdef"
SHARE, QUEUE = 3, 27
LIMITS = f'{{"concurrent_tasks": {SHARE}, "queued_tasks": {QUEUE}}}'

# Its API has the limits, too: each API looks for queued tasks once a minute, and has them released as its policy says.
service = service_fixture(
    scope="module", tools=["tests.support.tools.protocol_tools"], settings={"OUTLAST_LIMITS": LIMITS}
)


@pytest.fixture
async def mortal(service: Service, tmp_path: Path) -> AsyncIterator[MortalApi]:
    with ExitStack() as stack:
        api = MortalApi(
            service,
            tmp_path / "api.log",
            stack,
            OUTLAST_TOOLS_FROM="tests.support.tools.protocol_tools",
            OUTLAST_API_KEYS=f"flo:{FLO},gus:{GUS}",
            OUTLAST_LIMITS=LIMITS,
        )
        await api.start()
        yield api


class Flood:
    """Flo's calls; each ends when its folder has a file `go`."""

    def __init__(self, http: httpx.AsyncClient, folder: Path) -> None:
        self._http = http
        self._folder = folder

    async def start(self, number: int, *, ends: bool) -> httpx.Response:
        """Call number `number`; the same number again is the same request."""
        folder = self._folder / str(number)
        folder.mkdir(exist_ok=True)
        if ends:
            (folder / "go").touch()
        body = {"tool": "watched", "arguments": {"folder": str(folder)}, "session_id": "flood"}
        return await self._http.post("/v1/tasks", json=body, headers={"Idempotency-Key": f"{folder}"})

    def end(self, number: int) -> None:
        (self._folder / str(number) / "go").touch()


async def test_a_flood_waits_in_order_and_others_are_answered(
    mortal: MortalApi, temporal: Client, tmp_path: Path, service: Service
) -> None:
    async with api_client(mortal.url, FLO) as flo, api_client(mortal.url, GUS) as gus:
        flood = Flood(flo, tmp_path)
        first = [(await flood.start(number, ends=False)).json() for number in range(SHARE)]
        assert await eventually(lambda: _listed(flo, "working", SHARE))
        queued = [(await flood.start(SHARE + number, ends=True)).json() for number in range(QUEUE)]
        assert {task["status"] for task in first} == {"working"}
        assert {(task["status"], task["status_message"]) for task in queued} == {("queued", QUEUED_MESSAGE)}

        assert await eventually(lambda: _listed(flo, "queued", QUEUE))
        await _a_full_queue_refuses(flo, flood)
        hello = {"tool": "hello_world", "arguments": {"name": "Gus"}}
        answer = await gus.post("/v1/tasks", json=hello, headers={"Prefer": "wait=30"})
        assert answer.json()["task"]["status"] == "completed", answer.text
        await _a_queued_task_can_be_cancelled(flo, queued.pop(5)["id"])

        # What the API knew of the queue is lost, and so is the dispatcher.
        dispatcher = temporal.get_workflow_handle(dispatch_workflow_id("key:flo"))
        await dispatcher.terminate()
        mortal.kill()
        await mortal.start()

        async def is_dispatched_again() -> bool:
            return (await dispatcher.describe()).status is WorkflowExecutionStatus.RUNNING

        await eventually(is_dispatched_again)
        assert (await flo.get(f"/v1/tasks/{queued[0]['id']}")).json()["status"] == "queued"
        late = (await flood.start(99, ends=True)).json()
        assert late["status"] == "queued"
        for number in range(SHARE):
            flood.end(number)
        tasks = [task["id"] for task in [*first, *queued, late]]
        await _began_in_order(flo, temporal, tasks)
        await _told_so_in_its_events(flo, queued[0]["id"])
        await _logged_it(queued[0]["id"], tmp_path / "api.log", service.worker.log)


async def _listed(flo: httpx.AsyncClient, status: str, number: int) -> bool:
    listed = (await flo.get("/v1/tasks", params={"status": status, "page_size": 200})).json()["tasks"]
    assert all("Queued" in task["status_message"] for task in listed if task["status"] == "queued")
    return len(listed) == number


async def _a_full_queue_refuses(flo: httpx.AsyncClient, flood: Flood) -> None:
    async def is_refused() -> bool:
        return (await flood.start(98, ends=True)).status_code == 429

    assert await is_refused()
    refused = await flood.start(98, ends=True)
    assert refused.json()["type"] == "urn:outlast:problem:too-many-requests"
    assert "queued_tasks" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) > 0
    assert (await flood.start(SHARE, ends=True)).json()["status"] == "queued"  # a repeated request finds its task
    metrics = (await flo.get("/metrics")).text
    assert f'outlast_queued_tasks{{caller="key:flo"}} {QUEUE}.0' in metrics
    assert 'outlast_limit_near_ratio{caller="key:flo",limit="concurrent_tasks"} 1.0' in metrics
    doctor = await check_limits(Options(url=str(flo.base_url), token=None, data_dir=Path("absent"), as_json=False))
    assert "key:flo uses 100% of queued_tasks" in doctor.finding


async def _logged_it(task_id: str, *logs: Path) -> None:
    def lines() -> dict[str, Any] | None:
        written = [line for log in logs for line in log.read_text().splitlines() if line.startswith("{")]
        found = {line.get("task_event"): line for line in map(json.loads, written) if line.get("task") == task_id}
        return found if "ended" in found else None

    found = await eventually(lines)
    assert {"accepted", "queued", "started"} <= found.keys()
    assert 0 < found["ended"]["queue_seconds"] <= found["ended"]["seconds"]


async def _a_queued_task_can_be_cancelled(flo: httpx.AsyncClient, task_id: str) -> None:
    await flo.post(f"/v1/tasks/{task_id}/cancel")
    answer = (await flo.get(f"/v1/tasks/{task_id}/result", params={"wait": 60})).json()
    assert (answer["task"]["status"], answer["task"]["finished_at"] is not None) == ("cancelled", True)
    assert [event.name async for event in events(flo, task_id)] == ["created", "status_message", "task_completed"]

    assert await eventually(lambda: _listed(flo, "queued", QUEUE - 1))


async def _began_in_order(flo: httpx.AsyncClient, temporal: Client, tasks: Sequence[str]) -> None:
    spans: list[tuple[datetime, datetime]] = []
    for task_id in tasks:
        answer: dict[str, Any] = (await flo.get(f"/v1/tasks/{task_id}/result", params={"wait": 60})).json()
        assert answer["task"]["status"] == "completed", answer
        history = (await temporal.get_workflow_handle(task_id).fetch_history()).events
        released = [one for one in history if one.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED]
        # It counts until its workflow has ended, when its session has been told.
        spans.append((time_of([*released, history[0]][0]), time_of(history[-1])))
    begins = [begin for begin, _ in spans]
    assert begins == sorted(begins)
    assert max(sum(begin <= moment < end for begin, end in spans) for moment in begins) == SHARE
    outcome: dict[str, Any] = await temporal.get_workflow_handle(tasks[-1]).result()
    assert outcome["seconds"] <= (spans[-1][1] - spans[-1][0]).total_seconds()  # its time counts from its release


async def _told_so_in_its_events(flo: httpx.AsyncClient, task_id: str) -> None:
    told = [event async for event in events(flo, task_id)]
    assert [event.name for event in told[:3]] == ["created", "status_message", "status_message"]
    assert [event.data["status"] for event in told[1:3]] == ["queued", "working"]
    assert told[-1].name == "task_completed"
