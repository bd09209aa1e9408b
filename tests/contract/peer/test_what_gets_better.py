"""What a client of Apify's own server gains with the mode `apify`, measured on both for docs/from-apify-mcp.md.

What killing does to ours is in tests/chaos/test_drop_in.py. `pytest -o log_cli_level=INFO` shows the figures.
"""

import json
import logging
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.process.server import running_peer
from tests.contract.peer.test_answers import called, connected
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.stacks.service import Service

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SLEEPER = "outlast/sleeper"
STARTS = r"/runs$"


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
    assert paid[0] > 1, "the peer has learned to find a run again: tell so in docs/from-apify-mcp.md"
    assert paid[1] == 1


async def test_a_page_of_large_rows_has_a_bound(both: Both, service: Service) -> None:
    dataset = service.sandbox.new_dataset([{"index": n, "text": f"{n} " + "word " * 20_000} for n in range(20)])
    sizes: list[int] = []
    for wire in await connected(both, LEGACY):
        answer = await called(wire, "get-dataset-items", {"datasetId": dataset})
        sizes.append(len(json.dumps(answer)))
    log.info("20 rows of 100 KB: the peer answers %s bytes, ours %s", *sizes)
    assert sizes[0] > 2_000_000
    assert sizes[1] < 2 * 262_144 + 10_000, "rows up to OUTLAST_OUTPUT_INLINE_LIMIT_BYTES, as text and as data"


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


async def test_the_peers_tasks_are_everybodys_and_forgotten_when_it_is_restarted(
    service: Service, tmp_path: Path
) -> None:
    arguments = {"actor": SLEEPER, "input": {"seconds": 0.1}}
    with running_peer(tmp_path, service.sandbox) as url:
        async with api_client(url, service.sandbox.token) as http:
            wire = Wire(http, LEGACY, "?tools=actors", path="/")
            await wire.initialize()
            started = await wire.request("tools/call", {"name": "call-actor", "arguments": arguments, "task": {}})
        stranger = service.sandbox.add_user("stranger").token
        async with api_client(url, stranger) as http:
            wire = Wire(http, LEGACY, "?tools=actors", path="/")
            await wire.initialize()
            seen = await wire.request("tasks/get", {"taskId": started["task"]["taskId"]})
            assert seen["taskId"] == started["task"]["taskId"], "any account may see it"
    with running_peer(tmp_path, service.sandbox) as url:
        async with api_client(url, service.sandbox.token) as http:
            wire = Wire(http, LEGACY, "?tools=actors", path="/")
            await wire.initialize()
            with pytest.raises(WireError, match="not found"):
                await wire.request("tasks/get", {"taskId": started["task"]["taskId"]})
