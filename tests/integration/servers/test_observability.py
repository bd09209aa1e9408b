"""What operators see of MCP servers: metrics, traces, and what calls wait for; from real workers with a real server."""

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from temporalio.client import Client

from outlast.api.operations import served_queues
from outlast.api.temporal.task_view import NO_SERVER_WORKER_MESSAGE
from outlast.worker.ended_runs import task_outcome
from tests.support.eventually import eventually
from tests.support.http.otlp import Collector, collecting
from tests.support.mcp.effects_setting import SAFE, EffectsSetting, begun, called, listed
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox

_SERIES = re.compile(r"^(outlast_mcp_\w+)\{(.*)\} (\S+)$", re.MULTILINE)


async def series(url: str) -> dict[tuple[str, str], float]:
    """The series of MCP servers, by their name and the labels without `server`, `namespace` and those of the SDK."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        found = _SERIES.findall((await http.get(url)).text)
    values: dict[tuple[str, str], float] = {}
    for name, labels, value in found:
        given = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        assert given["server"] == "effects"
        assert given["namespace"] == "default"
        values[name, given.get("event") or given.get("outcome") or ""] = float(value)
    return values


async def test_what_happens_to_sessions_and_calls_is_counted(setting: EffectsSetting, client: Client) -> None:
    with setting.worker() as worker:
        await listed(client)
        await called(client, "count", {})
        await called(client, "fail", {}, **SAFE)
        unsafe = await begun(client, "append", {"text": "a", "gate": str(setting.gate)})
        await eventually(lambda: setting.lines == ["a"])
        setting.kill_server()
        await task_outcome(unsafe)
        assert (await called(client, "count", {})).result.is_error
        setting.path.write_text(json.dumps({"mcpServers": {"effects": {"command": "/no/such/program"}}}))
        await listed(client)
        expected = {
            ("outlast_mcp_calls_total", "completed"): 1,
            ("outlast_mcp_calls_total", "tool_error"): 1,
            ("outlast_mcp_calls_total", "outcome_unknown"): 1,
            ("outlast_mcp_calls_total", "session_lost"): 1,
            ("outlast_mcp_call_duration_seconds_count", ""): 2,
            ("outlast_mcp_lists_total", "listed"): 1,
            ("outlast_mcp_lists_total", "failed"): 1,
            ("outlast_mcp_sessions_total", "opened"): 2,
            ("outlast_mcp_sessions_total", "lost"): 2,
            ("outlast_mcp_sessions_total", "failed"): 1,
            ("outlast_mcp_open_sessions", ""): 0,
        }
        found = await series(worker.ready_url)
        assert {name: found.get(name) for name in expected} == expected


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


async def test_a_server_gets_the_trace_of_each_call(
    setting: EffectsSetting, client: Client, collector: Collector
) -> None:
    settings = {"OUTLAST_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with setting.worker(**settings):
        traces = set[str]()
        for _ in range(2):  # in one session
            meta = json.loads((await called(client, "meta", {}, **SAFE)).result.text)
            _, trace, parent, flags = meta["traceparent"].split("-")
            tree = await collector.whole_trace(trace, "execute_tool effects__meta", root="")
            assert flags == "01"
            sent = "MCP send tools/call meta"
            assert tree.path(sent) == ["execute_tool effects__meta", "call_server_tool", sent]
            assert tree.one(sent).id == parent
            assert tree.one("call_server_tool").attributes["outlast.mcp.server"] == "effects"
            traces.add(trace)
        assert len(traces) == 2


async def test_without_tracing_a_server_gets_no_trace(setting: EffectsSetting, client: Client) -> None:
    with setting.worker():
        meta = json.loads((await called(client, "meta", {}, **SAFE)).result.text)
        assert "traceparent" not in (meta or {})


async def test_a_call_without_a_worker_for_servers_says_so(setting: EffectsSetting, client: Client) -> None:
    nowhere = Sandbox("http://127.0.0.1:9", "none", setting.folder / "no.log")
    settings = api_settings(nowhere, builtin_tools="off", mcp_servers_file=setting.path)
    async with serving_api(client, settings, whole=True) as api:
        with setting.worker():
            assert (await api.get("/v1/servers/effects", params={"max_age_seconds": 0})).json()["error"] is None
            assert "outlast-servers" in {queue.queue for queue in (await served_queues(client)).queues}
        with setting.worker(OUTLAST_MCP_SERVERS_FILE=""):
            task_id = (await api.post("/v1/tasks", json={"tool": "effects__count", "arguments": {}})).json()["id"]

            async def is_told() -> bool:
                task = (await api.get(f"/v1/tasks/{task_id}")).json()
                return task["status"] == "working" and task["status_message"] == NO_SERVER_WORKER_MESSAGE

            await eventually(is_told)
        with setting.worker():
            answer = (await api.get(f"/v1/tasks/{task_id}/result", params={"wait": 60})).json()
            assert answer["result"]["raw_content"][0]["text"] == "1"
