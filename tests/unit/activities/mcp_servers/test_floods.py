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
from tests.support.eventually import eventually

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


async def test_lines_are_read_in_small_chunks_and_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_MAX_MESSAGE_BYTES", 200_000)
    stream = asyncio.StreamReader()
    stream.feed_data(b"a\n\n" + b"b" * 150_000 + b"\nc")
    stream.feed_eof()
    assert [len(line) async for line in stdio._lines(stream)] == [1, 0, 150_000, 1]
    endless = asyncio.StreamReader()
    endless.feed_data(b"x" * 300_000)
    with pytest.raises(ValueError, match=r"^$"):
        assert [line async for line in stdio._lines(endless)] == []


async def test_nothing_of_a_server_stays_open_after_its_session(tmp_path: Path) -> None:
    def open_files() -> int:
        return len([*Path("/proc/self/fd").iterdir()])

    # What it leaves behind is not in its process group, and holds its pipes.
    leaves = f"import subprocess\nsubprocess.Popen(['setsid', 'sleep', '30'])\n{_FLOOD}"
    server = StdioServer("leaving", sys.executable, ("-c", leaves, _MESSAGE), cwd=tmp_path)
    guard = ProcessGuard()
    await guard.start()
    before = open_files()
    async with stdio_transport(server, guard, lambda: None) as (received, _):
        await received.receive()
    await eventually(lambda: open_files() == before)
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
