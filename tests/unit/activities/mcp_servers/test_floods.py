"""Servers that write without end: they wait, or are ended, and the worker serves others meanwhile."""

import asyncio
import sys
from pathlib import Path

import anyio
import pytest

from outlast.activities.mcp_servers import stdio
from outlast.activities.mcp_servers.config import StdioServer
from outlast.activities.mcp_servers.lenient import MAX_TOOLS, understood_tools
from outlast.activities.mcp_servers.stdio import Pace, ProcessGuard, stdio_transport

_MESSAGE = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}'
_FLOOD = "import sys\nwhile True: print(sys.argv[1], flush=True)"


def server(folder: Path, line: str) -> StdioServer:
    return StdioServer("flood", sys.executable, ("-c", _FLOOD, line), cwd=folder)


def test_a_pace_lets_a_burst_pass_and_then_so_many_per_second() -> None:
    now = 0.0
    pace = Pace(10, burst=3, clock=lambda: now)
    assert [pace.wait_seconds() for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    now = 100.0
    assert [pace.wait_seconds() for _ in range(4)] == [0, 0, 0, 0.1]
    now = 200.0
    assert [pace.has_token() for _ in range(5)] == [True, True, True, False, False]


async def test_a_server_that_writes_no_messages_is_ended(tmp_path: Path) -> None:
    ended, guard = asyncio.Event(), ProcessGuard()
    async with stdio_transport(server(tmp_path, "garbage"), guard, ended.set) as (received, _):
        await ended.wait()
        assert [message async for message in received] == []
    await guard.close()


async def test_a_flood_of_messages_waits_after_its_burst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_MESSAGES_PER_SECOND", 0.001)
    guard = ProcessGuard()
    async with stdio_transport(server(tmp_path, _MESSAGE), guard, lambda: None) as (received, _):
        for _ in range(1_000):
            await received.receive()
        for _ in range(100):
            await asyncio.sleep(0)
            with pytest.raises(anyio.WouldBlock):
                received.receive_nowait()
    await guard.close()


async def test_a_server_with_too_much_to_log_still_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "_LOG_LINES_PER_SECOND", 0.001)
    caplog.set_level("INFO", "outlast.mcp_servers")
    code = "import sys\nfor _ in range(20_000): print('oh no ' * 9, file=sys.stderr)\nprint(sys.argv[1], flush=True)"
    talkative = StdioServer("talkative", sys.executable, ("-c", code, _MESSAGE), cwd=tmp_path)
    guard = ProcessGuard()
    async with stdio_transport(talkative, guard, lambda: None) as (received, _):
        await received.receive()
    await guard.close()
    assert len(caplog.records) == 200


def test_of_a_list_that_is_too_long_the_beginning_is_read() -> None:
    tool = {"description": "", "inputSchema": {"type": "object"}}
    listed = understood_tools({"tools": [{**tool, "name": f"t{number}"} for number in range(100_000)]})["tools"]
    assert [one["name"] for one in listed] == [f"t{number}" for number in range(MAX_TOOLS + 1)]
