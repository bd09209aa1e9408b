"""`outlast mcp`, as a desktop client starts it: in `/`, with a stack that all clients of a user share."""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.state import StackState, find_running
from tests.support.eventually import eventually
from tests.support.http.otlp import Collector, collecting
from tests.support.stacks.stack_config import clean_environment, running_children

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


@asynccontextmanager
async def started_by_client(
    data_dir: Path, *flags: str, version: str = "legacy", **settings: str
) -> AsyncIterator[Client]:
    """A client that has started `outlast mcp` on `data_dir`, with these variables."""
    ports = {f"OUTLAST_{name.upper()}": "0" for name in StackConfig.model_fields if name.endswith("_port")}
    command = [str(Path(sys.executable).parent / "outlast"), "mcp", "--data-dir", str(data_dir), *flags]
    environment = clean_environment(**ports, OUTLAST_LOG_LEVEL="warning", **settings)
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd="/")
    async with Client(stdio_client(server), mode=version, read_timeout_seconds=180) as client:
        yield client


def kill_everything(state: StackState) -> None:
    for pid in (state.pid, *running_children(state)):
        # The supervisor stops its parts itself when the client has left.
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


async def gone(data_dir: Path) -> None:
    await eventually(lambda: find_running(data_dir) is None, timeout_seconds=180)


async def test_a_task_outlives_its_client_and_the_death_of_the_whole_stack(tmp_path: Path) -> None:
    own = ("--tools-from", "tests.support.tools.conformance_tools")
    async with started_by_client(tmp_path, *own, "--tools", "actors,dev") as client:
        assert {"call-actor", "slow_compute"} <= {tool.name for tool in (await client.list_tools()).tools}
        left = await client.call_tool("slow_compute", {"seconds": 10, "label": "it", "waitSecs": 0})
        state = find_running(tmp_path)
        assert state is not None
        async with started_by_client(tmp_path) as joining:
            assert "slow_compute" in [tool.name for tool in (await joining.list_tools()).tools]
    assert left.meta is not None
    kill_everything(state)
    await gone(tmp_path)
    async with started_by_client(
        tmp_path, *own, "--tools", "actors", "--ui", "openai", "--payment", "skyfire", version="auto"
    ) as client:
        assert "search-actors-internal" in [tool.name for tool in (await client.list_tools()).tools]
        found = await client.call_tool("get-task", {"taskId": left.meta["outlast/taskId"], "waitSecs": 50})
        unpaid = await client.call_tool("call-actor", {"actor": "outlast/sleeper"})
        state = find_running(tmp_path)
        assert state is not None
    kill_everything(state)
    assert (unpaid.meta or {})["outlast/error"]["category"] == "payment"
    text = "\n".join(block.text for block in found.content if isinstance(block, TextContent))
    assert text == "Computed it in 10 seconds"


@pytest.mark.thorough
async def test_the_stack_stays_while_another_client_uses_it(tmp_path: Path, collector: Collector) -> None:
    traced = {"OUTLAST_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    async with started_by_client(tmp_path, **traced) as second:
        started = find_running(tmp_path)
        trace, root = secrets.token_hex(16), secrets.token_hex(8)
        async with started_by_client(tmp_path, **traced) as first:
            await first.call_tool(
                "search-actors", {"keywords": "sleeper"}, meta={"traceparent": f"00-{trace}-{root}-01"}
            )
        # Of the process that has ended, and of the worker that the stack has started.
        tree = await collector.whole_trace(trace, "tools/call search-actors", "search_actors", root=root)
        assert tree.one("tools/call search-actors").process == "outlast-mcp"
        assert tree.path("search_actors")[1:] == ["execute_tool search-actors", "search_actors"]
        assert tree.one("search_actors").process == "outlast-worker"
        still_running = find_running(tmp_path)
        assert still_running is not None
        assert started is not None
        assert (still_running.pid, still_running.ports) == (started.pid, started.ports)
        await asyncio.wait_for(second.call_tool("list-tasks", {}), 60)
        await expect_the_selectors_of_apifys_server(tmp_path)
        outlast = str(Path(sys.executable).parent / "outlast")
        wrong = [outlast, "mcp", "--data-dir", str(tmp_path), "--tools-from", "no_such_tools"]
        ended = await asyncio.to_thread(answered, wrong)
        assert "no_such_tools" in json.loads(ended.stdout)["error"]["message"]
    await gone(tmp_path)
    assert running_children(started) == []


async def expect_the_selectors_of_apifys_server(data_dir: Path) -> None:
    """The mode `apify` reads the flags and the variables of that server; a flag counts more than a variable."""
    docs, shown = ["search-apify-docs", "fetch-apify-docs"], ["search-actors", "search-actors-widget"]
    for flags, variables, expected in (
        (("--mode", "apify", "--tools", "docs"), {"TOOLS": "storage", "TELEMETRY_ENABLED": "true"}, docs),
        ((), {"OUTLAST_MODE": "apify", "TOOLS": "docs,dev", "TELEMETRY_ENABLED": "1"}, [*docs, "report-problem"]),
        (("--telemetry-enabled", "false"), {"OUTLAST_MODE": "apify", "TOOLS": "docs,dev"}, docs),
        (("--mode", "apify", "--tools", "search-actors", "--ui", "apps"), {"UI_MODE": "default"}, shown),
        ((), {"OUTLAST_MODE": "apify", "TOOLS": "search-actors", "UI_MODE": "true"}, shown),
        (("--ui", "default"), {"OUTLAST_MODE": "apify", "TOOLS": "search-actors", "UI_MODE": "apps"}, shown[:1]),
    ):
        async with started_by_client(data_dir, *flags, **variables) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == expected, variables


INITIALIZE: dict[str, object] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
WITHOUT_SERVERS = """
import sys
from outlast.deploy.local import plan
plan._has_temporal = lambda: False
from outlast.cli.main import main
sys.argv = ["outlast", "mcp", "--data-dir", sys.argv[1]]
main()
"""


def answered(command: list[str]) -> "subprocess.CompletedProcess[str]":
    """The end of a server that a client in `/` has started and sent its first request."""
    request = json.dumps(INITIALIZE) + "\n"
    environment = clean_environment()
    return subprocess.run(
        command, input=request, text=True, capture_output=True, env=environment, cwd="/", timeout=180, check=False
    )


def test_without_the_embedded_servers_the_client_is_told_the_command_that_adds_them(tmp_path: Path) -> None:
    ended = answered([sys.executable, "-P", "-c", WITHOUT_SERVERS, str(tmp_path)])
    (line,) = ended.stdout.splitlines()
    answer = json.loads(line)
    assert answer["id"] == 7
    assert "pip install 'outlast[embedded]'" in answer["error"]["message"]
    assert "pip install 'outlast[embedded]'" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.returncode != 0


def test_a_data_directory_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outlast = str(Path(sys.executable).parent / "outlast")
    ended = answered([outlast, "mcp", "--data-dir", str(tmp_path / "file" / "data")])
    assert str(tmp_path / "file") in json.loads(ended.stdout)["error"]["message"]
    assert [line for line in ended.stderr.splitlines() if str(tmp_path / "file") in line]
    assert "Traceback" not in ended.stderr
    assert ended.returncode != 0
