"""What a client of Apify's own server gains with the mode `apify`, measured on both for docs/from-apify-mcp.md.

What killing does to ours is in tests/chaos/test_drop_in.py, and what both say of a cancelled task while its run cannot
be stopped in test_tasks.py. `pytest -o log_cli_level=INFO` shows the figures.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.process.server import VERSION, Peer, running_peer
from tests.contract.peer.test_answers import called, connected
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.paths import ROOT
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SLEEPER = "outlast/sleeper"
STARTS = r"/runs$"
PAGE = (ROOT / "docs" / "from-apify-mcp.md").read_text()


PEERS_LOSSES = {
    "the server restarts while a task runs": "the task is lost; its run continues and costs",
    "a task is cancelled while the platform cannot stop runs (503), and the server restarts": (
        "the task is lost; its run **continues and costs**"
    ),
    "the process dies (`kill -9`) during a call": "the call is lost; its run continues and costs",
    "who can see a task": "every client of the process",
}
"""Rows of the page, as far as they tell of the peer."""


def row(*cells: str) -> str:
    """A row of the page's table."""
    return f"| {' | '.join(cells)} |\n"


def test_the_page_is_about_the_version_that_is_compared() -> None:
    assert f"Apify's server {VERSION.removesuffix('.0')} |" in PAGE


async def runs_there(wire: Wire) -> int:
    return (await called(wire, "get-actor-run-list", {"limit": 1}))["structuredContent"]["total"]


@pytest.mark.parametrize("fault", [{"action": "drop_after"}, {"action": "status_after", "status": 502}])
async def test_a_start_whose_answer_is_lost_is_paid_once(both: Both, service: Service, fault: dict[str, Any]) -> None:
    paid: list[int] = []
    statuses: list[str] = []
    for wire in await connected(both, LEGACY):
        before = await runs_there(wire)
        service.sandbox.order_fault(**fault, path=STARTS, method="POST", times=1)
        try:
            answer = await called(wire, "call-actor", {"actor": SLEEPER, "input": {"seconds": 0.1}})
        finally:
            service.sandbox.clear_faults()
        statuses.append(answer["structuredContent"]["status"])
        paid.append(await runs_there(wire) - before)
    assert statuses == ["SUCCEEDED", "SUCCEEDED"]
    log.info("lost start (%s): runs paid by the peer %s, by ours %s", fault["action"], *paid)
    assert paid == [2, 1]
    assert "starts it again: **2 runs paid** | finds the run: **1 run paid** |" in PAGE


async def test_a_page_of_large_rows_has_a_bound(both: Both, service: Service) -> None:
    dataset = service.sandbox.new_dataset([{"index": n, "text": f"{n} " + "word " * 20_000} for n in range(20)])
    sizes: list[int] = []
    rows: list[int] = []
    for wire in await connected(both, LEGACY):
        answer = await called(wire, "get-dataset-items", {"datasetId": dataset})
        sizes.append(len(json.dumps(answer)))
        rows.append(len(answer["structuredContent"]["items"]))
    log.info("20 rows of 100 KB: the peer answers %s bytes, ours %s", *sizes)
    assert sizes[1] < 2 * 262_144 + 10_000, "rows up to OUTLAST_OUTPUT_INLINE_LIMIT_BYTES, as text and as data"
    assert rows == [20, 2]
    told = (f"{sizes[0]:,} bytes", f"{sizes[1]:,} bytes: the first 2 rows, and where to continue")
    assert row("`get-dataset-items` finds 20 rows of 100 KB", *told) in PAGE


async def test_a_dropped_connection_stops_no_run(both: Both, service: Service) -> None:
    """In the newer protocol version, where the peer takes it for a cancellation."""
    ended: list[str] = []
    for wire in both.wires(MODERN, "?tools=actors"):
        arguments = {"actor": SLEEPER, "input": {"seconds": 4, "steps": 8}}
        params = {"name": "call-actor", "arguments": arguments, "_meta": {"progressToken": "p"}}
        run_id = ""
        async with aclosing(wire.messages("tools/call", params)) as messages:
            async for message in messages:
                if message.get("method") == "notifications/progress":
                    run_id = message["params"]["_meta"]["com.apify/ActorRun"]["runId"]
                    break

        async def status(run_id: str = run_id) -> str:
            found = service.sandbox.run(run_id)["status"]
            assert found in ("SUCCEEDED", "ABORTED"), found
            return found

        ended.append(await eventually(status))
    log.info("dropped connection: the peer's run %s, ours %s", *ended)
    assert ended == ["ABORTED", "SUCCEEDED"]


@asynccontextmanager
async def owner_of(peer: Peer, token: str) -> AsyncIterator[Wire]:
    """A connection of the account that has this token."""
    async with api_client(peer.url, token, timeout_seconds=120) as http:
        wire = Wire(http, LEGACY, "?tools=actors", path="/")
        await wire.initialize()
        yield wire


def call_of(seconds: float) -> dict[str, Any]:
    return {"name": "call-actor", "arguments": {"actor": SLEEPER, "input": {"seconds": seconds}, "waitSecs": 45}}


async def new_run(sandbox: Sandbox, others: set[str]) -> str:
    """The one that goes on beside others."""
    (run_id,) = await eventually(lambda: set(sandbox.counters["runningNow"]) - others)
    return run_id


async def started_task(wire: Wire, sandbox: Sandbox, seconds: float) -> tuple[str, str]:
    """A task and its run, which goes on."""
    others = set(sandbox.counters["runningNow"])
    task = (await wire.request("tools/call", {**call_of(seconds), "task": {}}))["task"]
    return task["taskId"], await new_run(sandbox, others)


async def test_what_the_peer_loses_with_its_process(service: Service, tmp_path: Path) -> None:
    """Its tasks, which are everybody's before; the run of a task that it was to cancel; and whoever waits."""
    sandbox = service.sandbox
    stranger = sandbox.add_user("stranger").token
    with running_peer(tmp_path, sandbox) as peer:
        async with owner_of(peer, sandbox.token) as wire, owner_of(peer, stranger) as other:
            lost, lost_run = await started_task(wire, sandbox, 5)
            assert (await other.request("tasks/get", {"taskId": lost}))["taskId"] == lost, "any account may see it"
            cancelled, cancelled_run = await started_task(wire, sandbox, 300)
            sandbox.order_fault("status", method="POST", path="/abort$", status=503)
            assert (await wire.request("tasks/cancel", {"taskId": cancelled}))["status"] == "cancelled"
            await eventually(lambda: sandbox.faults[0]["hits"] > 0)
    sandbox.restore()
    with running_peer(tmp_path, sandbox) as peer:
        async with owner_of(peer, sandbox.token) as wire:
            for task_id in (lost, cancelled):
                with pytest.raises(WireError, match="not found"):
                    await wire.request("tasks/get", {"taskId": task_id})
            others = set(sandbox.counters["runningNow"])
            waiting = asyncio.ensure_future(wire.request("tools/call", call_of(6)))
            waited_run = await new_run(sandbox, others)
            peer.kill()
            with pytest.raises(httpx.HTTPError):
                await waiting
    for run_id in (lost_run, waited_run):
        await eventually(lambda run_id=run_id: sandbox.run(run_id)["status"] == "SUCCEEDED")
        assert sandbox.run(run_id)["usageTotalUsd"] > 0
    assert sandbox.run(cancelled_run)["status"] == "RUNNING", "nobody asks the platform again to stop it"
    sandbox.abort_run(cancelled_run)
    for case, told in PEERS_LOSSES.items():
        assert f"| {case} | {told} |" in PAGE
