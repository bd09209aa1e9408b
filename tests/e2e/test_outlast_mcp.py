"""`outlast mcp`, as a desktop client starts it: it brings its own stack, which outlives it while others use it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.state import StackState, find_running
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.stacks.stack_config import clean_environment, running_children

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


@asynccontextmanager
async def started_by_client(data_dir: Path, *flags: str, era: str = "legacy") -> AsyncIterator[Client]:
    """A client that has started `outlast mcp` on `data_dir`."""
    ports = {f"OUTLAST_{name.upper()}": "0" for name in StackConfig.model_fields if name.endswith("_port")}
    command = [str(Path(sys.executable).parent / "outlast"), "mcp", "--data-dir", str(data_dir), *flags]
    environment = clean_environment(**ports, OUTLAST_LOG_LEVEL="warning")
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=ROOT)
    async with Client(stdio_client(server), mode=era, read_timeout_seconds=180) as client:
        yield client


def kill_everything(state: StackState) -> None:
    for pid in (state.pid, *running_children(state)):
        psutil.Process(pid).kill()


async def gone(data_dir: Path) -> None:
    await eventually(lambda: find_running(data_dir) is None, timeout_seconds=60)


async def test_a_task_outlives_its_client_and_the_death_of_the_whole_stack(tmp_path: Path) -> None:
    own = ("--tools-from", "tests.support.tools.conformance_tools")
    async with started_by_client(tmp_path, *own, "--tools", "actors,dev") as client:
        assert {"call-actor", "slow_compute"} <= {tool.name for tool in (await client.list_tools()).tools}
        left = await client.call_tool("slow_compute", {"seconds": 10, "label": "it", "waitSecs": 0})
        state = find_running(tmp_path)
        assert state is not None
    assert left.meta is not None
    kill_everything(state)
    await gone(tmp_path)
    async with started_by_client(tmp_path, *own, "--ui", "openai", era="auto") as client:
        assert "search-actors-internal" not in [tool.name for tool in (await client.list_tools()).tools]
        found = await client.call_tool("get-task", {"taskId": left.meta["outlast/taskId"], "waitSecs": 50})
        state = find_running(tmp_path)
        assert state is not None
    kill_everything(state)
    text = "\n".join(block.text for block in found.content if isinstance(block, TextContent))
    assert text == "Computed it in 10 seconds"


async def test_the_stack_stays_while_another_client_uses_it(tmp_path: Path) -> None:
    async with started_by_client(tmp_path) as second:
        started = find_running(tmp_path)
        async with started_by_client(tmp_path) as first:
            await first.list_tools()
        assert find_running(tmp_path) == started
        await asyncio.wait_for(second.call_tool("list-tasks", {}), 60)
    await gone(tmp_path)
    assert started is not None
    assert running_children(started) == []
