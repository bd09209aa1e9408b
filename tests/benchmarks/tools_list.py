"""`tools/list` of the default set over MCP against the SDK's own server with as many tools, in both revisions."""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import running_system
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.ports import free_port
from tests.support.processes.module_process import started_module
from tests.support.stacks.stack_config import clean_environment

AT_MOST = Target("at most", 1.5)
_WARM_UP = 30
_PAIRS = 200


async def measure_tools_list() -> Finding:
    """Alternate between the two servers, one request at a time."""
    figures: list[Figure] = []
    async with running_system() as system, AsyncExitStack() as stack:
        outlast = str(system.stack.addresses.api_url)
        tools = await _tools_of(outlast)
        yardstick = await stack.enter_async_context(_sdk_server(tools))
        for revision in (LEGACY, MODERN):
            figures += await _compared(revision, outlast, yardstick)
    return Finding("tools-list", tuple(figures), {"tools": len(tools), "pairs": _PAIRS, "order": "alternating"})


async def _compared(revision: str, outlast: str, yardstick: str) -> list[Figure]:
    async with _client(outlast, revision) as ours, _client(yardstick, revision) as theirs:
        taken: dict[str, list[float]] = {"ours": [], "theirs": []}
        for number in range(_WARM_UP + _PAIRS):
            pair = (("ours", ours), ("theirs", theirs))
            for name, wire in pair if number % 2 else pair[::-1]:
                began = time.perf_counter()
                await wire.request("tools/list")
                taken[name].append((time.perf_counter() - began) * 1_000)
    medians = {name: statistics.median(values[_WARM_UP:]) for name, values in taken.items()}
    return [
        Figure(f"{revision}: tools/list, median", medians["ours"], "ms"),
        Figure(f"{revision}: the SDK's own server, median", medians["theirs"], "ms"),
        Figure(f"{revision}: ratio of the medians", medians["ours"] / medians["theirs"], "", AT_MOST, "lower"),
    ]


@asynccontextmanager
async def _client(url: str, revision: str) -> AsyncGenerator[Wire]:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http:
        wire = Wire(http, revision)
        if revision == LEGACY:
            await wire.initialize()
        yield wire


async def _tools_of(url: str) -> list[dict[str, Any]]:
    async with _client(url, LEGACY) as wire:
        return (await wire.request("tools/list"))["tools"]


@asynccontextmanager
async def _sdk_server(tools: list[dict[str, Any]]) -> AsyncGenerator[str]:
    port = free_port()
    with TemporaryDirectory(prefix="outlast-bench-") as folder:
        listed = Path(folder) / "tools.json"
        listed.write_text(json.dumps(tools))
        served = started_module(
            "tests.benchmarks.sdk_server",
            str(port),
            str(listed),
            ready_url=f"http://127.0.0.1:{port}/mcp",
            log=Path(folder) / "server.log",
            environment=clean_environment(),
        )
        with served as process:
            await asyncio.to_thread(_await_listening, process, port)
            yield f"http://127.0.0.1:{port}"


def _await_listening(process: Any, port: int) -> None:
    """The yardstick answers no GET without a session: any answer says that it listens."""
    deadline = time.monotonic() + 60
    while process.process.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get(f"http://127.0.0.1:{port}/mcp", trust_env=False, timeout=5)
        except httpx.HTTPError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"The yardstick does not listen:\n{process.log.read_text()}")
