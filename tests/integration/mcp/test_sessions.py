"""Sessions of the older protocol revision end when nobody uses them; what they have started does not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from mcp import Client

from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, Wire
from tests.support.ports import free_address
from tests.support.processes.module_process import started_module
from tests.support.stacks.service import Service, settings_environment

IDLE_SECONDS = 1


@pytest.fixture
async def impatient(service: Service, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A second API process on the same tasks, whose sessions end after a second."""
    url = free_address()
    environment = settings_environment(
        service.temporal_address,
        service.sandbox,
        OUTLAST_DATA_DIR=str(tmp_path),
        OUTLAST_API_PORT=str(httpx.URL(url).port),
        OUTLAST_MCP_SESSION_IDLE_SECONDS=str(IDLE_SECONDS),
        OUTLAST_TOOLS_FROM="tests.support.tools.conformance_tools",
        OUTLAST_DEFAULT_TOOLS="dev",
    )
    with started_module(
        "outlast.api", ready_url=f"{url}/healthz", log=tmp_path / "api.log", environment=environment
    ) as process:
        await asyncio.to_thread(process.await_answer)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=180) as http:
            yield http


async def test_an_idle_session_ends_and_its_task_lives_on(impatient: httpx.AsyncClient) -> None:
    wire = Wire(impatient, LEGACY)
    await wire.initialize()
    call = {"name": "confirm_delete", "arguments": {"filename": "kept.txt"}, "task": {}}
    task_id = (await wire.request("tools/call", call))["task"]["taskId"]
    assert wire.session is not None

    async def has_ended() -> bool:
        return await status_of(impatient, wire.session or "") == 404

    # Every question keeps the session alive, so they are asked further apart than it is patient.
    await eventually(has_ended, interval_seconds=IDLE_SECONDS * 1.5)
    async with Client(f"{impatient.base_url}/mcp", mode="legacy") as anew:
        assert [tool.name for tool in (await anew.list_tools()).tools]
    again = Wire(impatient, LEGACY)
    await again.initialize()
    assert again.session != wire.session
    assert (await again.request("tasks/get", {"taskId": task_id}))["status"] in ("working", "input_required")
    await again.request("tasks/cancel", {"taskId": task_id})


async def test_an_open_stream_keeps_a_session(impatient: httpx.AsyncClient) -> None:
    kept, idle = Wire(impatient, LEGACY), Wire(impatient, LEGACY)
    await kept.initialize()
    async with kept.notifications():
        await idle.initialize()

        async def other_has_ended() -> bool:
            return await status_of(impatient, idle.session or "") == 404

        await eventually(other_has_ended, interval_seconds=IDLE_SECONDS * 1.5)
        assert await status_of(impatient, kept.session or "") == 200


async def status_of(http: httpx.AsyncClient, session: str) -> int:
    """What a request of the session is answered with."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": LEGACY,
        "Mcp-Session-Id": session,
    }
    return (await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)).status_code
