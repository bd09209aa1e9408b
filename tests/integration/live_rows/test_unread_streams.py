"""Clients that do not read the streams that they requested: the API takes little memory, and serves others."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import pytest

from outlast.workflows.contracts.sessions import POSTED_SIGNAL, Posted
from tests.integration.live_rows.conftest import ANN, BOB
from tests.support.calls.batches import carried_out
from tests.support.calls.tasks import all_rows, completed, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN
from tests.support.stacks.api_server import connect
from tests.support.stacks.service import Service

READERS = 500
MAX_GROWTH_MB = 100
RETURNED_MB = 60
TABLE = {"tool": "call-actor", "arguments": {"actor": "outlast/big-table", "input": {"targetBytes": 20_000_000}}}
TALK = {"tool": "talk", "arguments": {"messages": 400, "length": 1_000}}
PLAIN = {"output": {"compress": False}}
LONG_TEXT = {"tool": "long-text", "arguments": {"length": 200_000}, "options": PLAIN}
LONG_TEXTS = {"tool": "long-text", "items": [{"arguments": {"length": 15_000}}] * 60, "options": PLAIN}


@dataclass(frozen=True)
class Asked:
    """A request whose response nobody reads."""

    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def wire(self) -> bytes:
        headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {ANN}", "Content-Length": len(self.body)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers | self.headers).items())
        return f"{'POST' if self.body else 'GET'} {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + self.body


def of_mcp(method: str, **params: Any) -> Asked:
    """A request of the newer revision of MCP."""
    meta = {
        f"io.modelcontextprotocol/{name}": value
        for name, value in (("protocolVersion", MODERN), ("clientCapabilities", {}))
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **({"Mcp-Name": params["uri"]} if "uri" in params else {}),
    }
    return Asked("/mcp", json.dumps(body).encode(), headers)


@contextmanager
def unread(service: Service, asked: Asked) -> Iterator[None]:
    """Connections that ask, and read nothing until the end of the block."""
    url = httpx.URL(service.api_url)
    with ExitStack() as readers:
        for _ in range(READERS):
            reader = readers.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            reader.connect((url.host, url.port))
            reader.sendall(asked.wire)
        yield


async def test_five_hundred_clients_that_do_not_read_take_little_memory(
    service: Service, api: httpx.AsyncClient
) -> None:
    answer = await completed(api, TABLE)
    talker = await started(api, TALK)
    task, locator = answer["task"]["id"], answer["result"]["locator"]
    await stays_small(service, api, Asked(f"/v1/tasks/{task}/rows"))
    await stays_small(service, api, Asked(f"/v1/outputs/{locator}?offset=1"))
    await stays_small(service, api, Asked(f"/v1/tasks/{talker}/events"))
    await api.post(f"/v1/tasks/{talker}/cancel")


@pytest.mark.thorough
async def test_unread_responses_of_every_other_kind_take_little_memory(
    service: Service, api: httpx.AsyncClient
) -> None:
    answer = await completed(api, TABLE)
    task, locator = answer["task"]["id"], answer["result"]["locator"]
    batch = await carried_out(api, LONG_TEXTS)
    session = f"/v1/sessions/{await talkative_session(service, api)}/events"
    text = (await completed(api, LONG_TEXT))["task"]["id"]
    for path in (
        f"/v1/tasks/{task}/rows?format=jsonl",
        f"/v1/outputs/{locator}",
        f"/v1/batches/{batch['id']}/results",
        "/v1/handoffs/events",
        session,
    ):
        await stays_small(service, api, Asked(path))
    for asked in (
        Asked(f"/v1/outputs/{locator}?query=%40"),
        Asked(f"/v1/tasks/{text}/events"),
        Asked(f"/v1/tasks/{text}/result"),
        Asked("/v1/tasks", json.dumps(LONG_TEXT).encode(), {"Content-Type": "application/json", "Prefer": "wait=60"}),
        of_mcp("tools/list"),
        of_mcp("resources/read", uri=f"outlast://tasks/{task}/rows"),
    ):
        await stays_small(service, api, asked, are_open=False)


async def talkative_session(service: Service, api: httpx.AsyncClient) -> str:
    """A session with many long events, which its latest run has as a whole in its first entry."""
    await completed(api, {**sleeper_call(0), "session_id": "talkative"})
    temporal = await connect(service.temporal_address)
    session = temporal.get_workflow_handle("session:key:ann:talkative")
    first = (await session.describe()).run_id
    for number in range(1_000):
        posted = Posted(kind="update", text=str(number).ljust(4_000, "."), task_id="t", tool="talk")
        await session.signal(POSTED_SIGNAL, posted)
        if (await session.describe()).run_id != first:
            return "talkative"
    raise AssertionError("the session has not continued as new")


async def stays_small(service: Service, api: httpx.AsyncClient, asked: Asked, *, are_open: bool = True) -> None:
    """Ask many times, unread: the process takes little memory, serves others, and gives the memory back.

    With `are_open`, the responses stay open until they are read; others may be refused.
    """
    await taste(api, asked)
    process = psutil.Process(service.api.process.pid)

    def memory_mb() -> float:
        used = process.memory_info().rss
        for child in process.children():
            with suppress(psutil.NoSuchProcess):  # it has ended since it was listed
                used += child.memory_info().rss
        return used / 2**20

    before, most = memory_mb(), 0.0

    async def all_wait() -> bool:
        """Each request has begun, and the process has nothing left to do for them."""
        nonlocal most
        used = process.cpu_times()
        for _ in range(10):
            most = max(most, memory_mb())
            await asyncio.sleep(0.1)
        now = process.cpu_times()
        is_quiet = now.user + now.system - used.user - used.system < 0.2
        return is_quiet and (not are_open or await open_streams(service) >= READERS)

    with unread(service, asked):
        await eventually(all_wait)
        async with service.http(BOB) as bobs:
            rows, _ = await all_rows(bobs, await started(bobs, sleeper_call(0.1, rows=20)))
            assert len(rows) == 20
    assert most < before + MAX_GROWTH_MB, asked
    await eventually(lambda: memory_mb() < before + RETURNED_MB)


async def taste(api: httpx.AsyncClient, asked: Asked) -> None:
    """Have the process load what serving the request needs."""
    method = "POST" if asked.body else "GET"
    async with api.stream(method, asked.path, content=asked.body, headers=asked.headers) as response:
        assert response.is_success, await response.aread()
        async for _ in response.aiter_bytes():
            return


async def open_streams(service: Service) -> float:
    """How many streams are open, of the 1,000 that a caller may have."""
    async with service.http(BOB) as api:
        metrics = (await api.get("/metrics")).text
    line = next(
        line for line in metrics.splitlines() if line.startswith('outlast_limit_used_ratio{limit="open_streams"')
    )
    return 1_000 * float(line.split()[1])


async def test_rows_of_megabytes_come_whole(api: httpx.AsyncClient) -> None:
    task = await started(api, sleeper_call(0.1, rows=5, rowBytes=3_000_000))
    rows, end = await all_rows(api, task)
    assert [len(row.data["payload"]) for row in rows] == [3_000_000] * 5
    assert end["rows"] == 5
