"""What Outlast adds to the calls of an MCP server: time, memory, and the size of lists; and what a kill costs."""

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from outlast.deploy.local.config import Component
from tests.benchmarks.gateway import server
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, running_system
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN, Wire

_WARM_UP = 15
_PAIRS = 100
_CALLERS = 64
_SECONDS = 10.0
_SESSIONS = 20
_TOOLS = 10_000
_KILLS = 3
_QUERIES = (
    "pay an invoice of a customer",
    "open a ticket for the support team",
    "which branches does the repository have",
    "delete a calendar event",
    "export the sales report as a table",
    "assign a role to a user",
    "restore an archived folder",
    "release a package",
    "approve a contract in procurement",
    "devices and sensors in production",
)
_SEARCHES = 20
"""Of each query."""
ADDED_AT_MOST = Target("at most", 30)
SEARCH_AT_MOST = Target("at most", 50)


@dataclass(frozen=True)
class _Files:
    """The file of the servers, and the effects of their calls."""

    folder: Path

    @property
    def servers(self) -> Path:
        return self.folder / "servers.json"

    def command(self, tools: int = 0) -> list[str]:
        return [sys.executable, "-S", "-P", server.__file__, str(self.folder / "effects"), str(tools)]

    def write(self) -> None:
        options: dict[str, tuple[int, dict[str, Any]]] = {
            "one": (0, {"session": "shared"}),
            "own": (0, {"session": "call"}),
            "free": (0, {"stateless": True}),
            "many": (_TOOLS, {"session": "shared"}),
        }
        entries = {
            name: {"command": self.command(tools)[0], "args": self.command(tools)[1:], "outlast": more}
            for name, (tools, more) in options.items()
        }
        self.servers.write_text(json.dumps({"mcpServers": entries}))


async def measure_gateway() -> Finding:
    """Measure on one stack, one thing after the other."""
    with tempfile.TemporaryDirectory(prefix="outlast-gateway-") as name:
        files = _Files(Path(name))
        files.write()
        async with running_system(environment={"OUTLAST_MCP_SERVERS_FILE": str(files.servers)}) as system:
            for ready in ("one", "own", "free"):
                await eventually(lambda ready=ready: _answers(system, ready))
            figures = (
                *await _added(system, files),
                await _throughput(system),
                await _memory(system),
                *await _discovery(system),
                *await _takeover(system),
            )
    setting = {"pairs": _PAIRS, "callers": _CALLERS, "sessions": _SESSIONS, "tools": _TOOLS, "kills": _KILLS}
    return Finding("gateway", figures, setting)


async def _answers(system: System, name: str) -> bool:
    """Whether the tools of a server are known, and one of them answers."""
    async with system.caller() as caller:
        status, answer = await caller.post(f"/v1/tools/{name}__read/call", {"arguments": {"call": "first"}})
        assert status == 200, answer
        return not answer["result"]["is_error"]


async def _added(system: System, files: _Files) -> list[Figure]:
    """Calls of one client, directly and through Outlast in turns."""
    command, *arguments = files.command()
    directly = StdioServerParameters(command=command, args=arguments)
    figures: list[Figure] = []
    async with Client(stdio_client(directly)) as direct, _mcp(system, "?tools=one") as wire:
        for tool, what in (("read", "read-only"), ("pay", "writing")):
            alone: list[float] = []
            through: list[float] = []
            for number in range(_WARM_UP + _PAIRS):
                call = {"call": f"{tool}-{number}"}
                began = time.perf_counter()
                await direct.call_tool(tool, call)
                alone.append((time.perf_counter() - began) * 1000)
                began = time.perf_counter()
                answer = await wire.request("tools/call", {"name": f"one__{tool}", "arguments": call})
                through.append((time.perf_counter() - began) * 1000)
                assert not answer.get("isError"), answer
            ours, theirs = statistics.median(through[_WARM_UP:]), statistics.median(alone[_WARM_UP:])
            figures += [
                Figure(
                    f"call of a tool that is {what}, median" if tool == "read" else f"call {what}, median", ours, "ms"
                ),
                Figure("the same, directly", theirs, "ms"),
                Figure(f"added to a {what} call", ours - theirs, "ms", ADDED_AT_MOST),
            ]
    return figures


async def _throughput(system: System) -> Figure:
    """Calls with an effect that all share one session."""
    made = 0
    end = time.perf_counter() + _SECONDS

    async def keep_calling(number: int) -> None:
        nonlocal made
        async with system.caller() as caller:
            while time.perf_counter() < end:
                await _called(caller, "one__pay", call=f"{number}-{made}")
                made += 1

    began = time.perf_counter()
    await asyncio.gather(*map(keep_calling, range(_CALLERS)))
    return Figure(f"writing calls, {_CALLERS} callers", made / (time.perf_counter() - began), "calls/s")


async def _memory(system: System) -> Figure:
    """What the worker needs for each open session, without the server's process."""
    await _open_sessions(system, 2)
    before = system.memory_bytes(Component.WORKER)
    during = await _open_sessions(system, _SESSIONS)
    return Figure("memory of the worker per stdio session", (during - before) / _SESSIONS / 2**20, "MiB")


async def _open_sessions(system: System, number: int) -> int:
    """The worker's memory while so many calls are open, each in its own session."""

    async def call(key: int) -> None:
        async with system.caller() as caller:
            await _called(caller, "own__read", call=str(key), before=8)

    calls = [asyncio.create_task(call(key)) for key in range(number)]
    most = 0
    while not all(each.done() for each in calls):
        most = max(most, system.memory_bytes(Component.WORKER))
        await asyncio.wait(calls, timeout=0.2)
    await asyncio.gather(*calls)
    return most


async def _discovery(system: System) -> list[Figure]:
    """A connection with 10,000 tools."""
    taken: list[float] = []
    async with _mcp(system, "?tools=many") as wire:
        listed = await wire.request("tools/list")
        for query in _QUERIES * _SEARCHES:
            began = time.perf_counter()
            answer = await wire.request("tools/call", {"name": "search-tools", "arguments": {"query": query}})
            taken.append((time.perf_counter() - began) * 1000)
            assert answer["structuredContent"]["tools"], answer
    taken = taken[len(_QUERIES) :]
    return [
        Figure(f"`tools/list` with {_TOOLS:,} tools", len(json.dumps(listed, separators=(",", ":"))), "bytes"),
        Figure("`search-tools` among them, median", statistics.median(taken), "ms"),
        Figure("the same, 95th percentile", statistics.quantiles(taken, n=20)[-1], "ms", SEARCH_AT_MOST),
    ]


async def _takeover(system: System) -> list[Figure]:
    """`kill -9` of the only worker: until an open read-only call is answered, and until another call is."""
    opened: list[float] = []
    others: list[float] = []
    for _ in range(_KILLS):
        async with system.caller() as first, system.caller() as second:
            waiting = asyncio.create_task(_called(first, "free__read", call="open", before=1))
            await asyncio.sleep(0.6)
            pid = system.stack.pid(Component.WORKER)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            killed = time.perf_counter()
            await _called(second, "free__pay", call="another")
            others.append(time.perf_counter() - killed)
            await waiting
            opened.append(time.perf_counter() - killed)
    return [
        Figure("until a call is answered that was made after `kill -9` of the worker", max(others), "s"),
        Figure("until an open read-only call is answered", max(opened), "s"),
    ]


async def _called(caller: RestCaller, tool: str, **arguments: object) -> None:
    """Make a call until it has ended. A request that Temporal could not take in time is repeated."""
    order, key = {"tool": tool, "arguments": arguments}, uuid4().hex
    while True:
        status, answer = await caller.post("/v1/tasks", order, idempotency_key=key, fields={"Prefer": "wait=30"})
        assert status in {200, 202, 503}, answer
        if "result" in answer:
            assert not answer["result"]["is_error"], answer
            return


@asynccontextmanager
async def _mcp(system: System, query: str) -> AsyncGenerator[Wire]:
    url = str(system.stack.addresses.api_url)
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=120) as http:
        yield Wire(http, MODERN, query)
