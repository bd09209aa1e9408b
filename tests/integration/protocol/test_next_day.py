"""Days later: the real server skips the time in which a task only waits."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client
from temporalio.testing import TimeSkipper

from tests.integration.protocol.conftest import ANN, BOB
from tests.support.calls.questions import answered, asks, call, result, said, taken, waiting
from tests.support.calls.tasks import sleeper_call
from tests.support.http.api_client import bearer
from tests.support.ports import free_port
from tests.support.processes.module_process import started_module
from tests.support.stacks.service import Service, settings_environment


async def later(temporal: Client, task_id: str, time: timedelta) -> None:
    """Let this time pass for the task."""
    await TimeSkipper(temporal).fast_forward(temporal.get_workflow_handle(task_id), time)


@pytest.fixture
async def another_api(service: Service, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A second API process, that has nothing but Temporal in common with the first."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = settings_environment(
        service.temporal_address,
        service.sandbox,
        OUTLAST_DATA_DIR=str(tmp_path),
        OUTLAST_API_PORT=str(port),
        OUTLAST_API_KEYS=f"ann:{ANN},bob:{BOB}",
        OUTLAST_TOOLS_FROM="tests.support.tools.protocol_tools",
    )
    with started_module(
        "outlast.api", ready_url=f"{url}/healthz", log=tmp_path / "api.log", environment=environment
    ) as api:
        await asyncio.to_thread(api.await_answer)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=180, headers=bearer(ANN)) as client:
            yield client


async def test_an_approval_is_answered_by_another_process_the_next_day(
    api: httpx.AsyncClient, another_api: httpx.AsyncClient, temporal: Client
) -> None:
    task = await waiting(api, call("deploy", item="site"))
    await later(temporal, task["id"], timedelta(days=1))
    assert (await another_api.get(f"/v1/tasks/{task['id']}")).json()["status"] == "input_required"
    await taken(another_api, task, {"decision": "yes", "note": "slept on it"})
    done = await result(api, task["id"])
    assert said(done) == "Deployed 1 site"
    assert done["meta"]["outlast/approval"]["note"] == "slept on it"


async def test_after_a_week_it_is_too_late(api: httpx.AsyncClient, temporal: Client) -> None:
    task = await waiting(api, call("deploy", item="site"))
    await later(temporal, task["id"], timedelta(days=6))
    assert (await asks(api, task["id"]))["status"] == "input_required"
    await later(temporal, task["id"], timedelta(days=2))
    failed = await result(api, task["id"])
    assert "Nobody approved the call of deploy within 7 days" in failed["error"]["message"]
    late = await answered(api, task, {"decision": "yes"})
    assert (late.status_code, late.json()["type"]) == (409, "urn:outlast:problem:task-finished")


async def test_days_of_waiting_do_not_use_up_the_calls_own_time(api: httpx.AsyncClient, temporal: Client) -> None:
    """A call may take a day; here somebody takes three to approve it."""
    body = call("call-actor", actor="outlast/site-crawler", input={"startUrls": [{"url": "http://127.0.0.1:1/"}]})
    task = await waiting(api, body)
    await later(temporal, task["id"], timedelta(days=3))
    await taken(api, task, {"decision": "yes", "arguments": sleeper_call(0)["arguments"]})
    assert (await result(api, task["id"]))["structured"]["status"] == "SUCCEEDED"
