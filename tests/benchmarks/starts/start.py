"""Processor time until a process is loaded or a command is done, and time until `outlast mcp` offers its tools."""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.state import find_running
from tests.benchmarks.report import Figure, Finding, Target
from tests.support.eventually import eventually
from tests.support.stacks.stack_config import clean_environment

_OUTLAST = str(Path(sys.executable).parent / "outlast")
_ROUNDS = 7
_STARTS = 3
_LOOK_SECONDS = 1
_MOST_LOOKS = 30
_PERCENT_AT_REST = 8
_IMPORTS = (("outlast", 50), ("outlast.worker.__main__", 1_200), ("outlast.api.__main__", 1_200))
_MOST_FOR_TASKS_LS = 400
_MOST_FROM_NOTHING = 4.0
_MOST_BESIDE_A_STACK = 2.0
_INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


async def measure_start() -> Finding:
    """Medians over several processes, each of which has its files in the page cache."""
    imports = [await asyncio.to_thread(_import_of, module, most) for module, most in _IMPORTS]
    nothing, beside, first, listing = await _on_stacks()
    figures = (
        *imports,
        Figure("outlast tasks ls, processor time", listing, "ms", Target("at most", _MOST_FOR_TASKS_LS)),
        Figure("outlast mcp from nothing to its tools", nothing, "s", Target("at most", _MOST_FROM_NOTHING)),
        Figure("the same beside another client", beside, "s", Target("at most", _MOST_BESIDE_A_STACK)),
        Figure("the same on an outlast up that has had no client", first, "s", Target("at most", _MOST_BESIDE_A_STACK)),
    )
    return Finding("start", figures, {"rounds": _ROUNDS, "starts_of_outlast_mcp": _STARTS})


def _import_of(module: str, most_ms: float) -> Figure:
    # The interpreter's own start, 10 ms, is part of it; its orderly end is not.
    command = [sys.executable, "-P", "-c", f"import {module}, os; os._exit(0)"]
    return Figure(f"import {module}, processor time", _processor_ms(command), "ms", Target("at most", most_ms))


def _processor_ms(command: list[str]) -> float:
    """User and system time of a process that runs `command`, the median of several."""
    taken: list[float] = []
    for _ in range(_ROUNDS + 1):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment()
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, command
        taken.append((usage.ru_utime + usage.ru_stime) * 1_000)
    return statistics.median(taken[1:])


async def _on_stacks() -> tuple[float, float, float, float]:
    """Seconds until a client has its tools, when `outlast mcp` starts the stack, when another is served there, and when
    `outlast up` has been started on the directory anew; and the milliseconds of `outlast tasks ls` there. Medians.
    """
    nothing: list[float] = []
    beside: list[float] = []
    first_of_stack: list[float] = []
    listing: list[float] = []
    for _ in range(_STARTS):
        with TemporaryDirectory(prefix="outlast-bench-") as folder:
            async with _served(folder) as first:
                nothing.append(first)
                async with _served(folder) as second:
                    beside.append(second)
                await asyncio.to_thread(_await_rest)
                listing.append(await asyncio.to_thread(_processor_ms, [_OUTLAST, "tasks", "ls", "--data-dir", folder]))
            await _stop(folder)
            up = [_OUTLAST, "up", "--detach", "--data-dir", folder]
            await asyncio.to_thread(subprocess.run, up, env=_environment(), check=True, stdout=subprocess.DEVNULL)
            async with _served(folder) as first:
                first_of_stack.append(first)
            await _stop(folder)
    medians = [statistics.median(taken) for taken in (nothing, beside, first_of_stack, listing)]
    return medians[0], medians[1], medians[2], medians[3]


def _await_rest() -> None:
    """Return when the stack has done what follows its start: two threads of one core take more time each."""
    for _ in range(_MOST_LOOKS):
        if psutil.cpu_percent(_LOOK_SECONDS) < _PERCENT_AT_REST:
            return


async def _stop(folder: str) -> None:
    state = find_running(Path(folder))
    if state is not None:
        os.kill(state.pid, signal.SIGTERM)
    await eventually(lambda: find_running(Path(folder)) is None)


def _environment() -> dict[str, str]:
    ports = {f"OUTLAST_{name.upper()}": "0" for name in StackConfig.model_fields if name.endswith("_port")}
    return clean_environment(**ports, OUTLAST_LOG_LEVEL="warning")


@asynccontextmanager
async def _served(data_dir: str) -> AsyncGenerator[float]:
    """`outlast mcp` on the directory, until the end of the block; the seconds until it had answered `tools/list`."""
    began = time.perf_counter()
    server = await asyncio.create_subprocess_exec(
        _OUTLAST, "mcp", "--data-dir", data_dir, stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL,
        env=_environment(), limit=2**24,
    )  # fmt: skip
    try:
        await _answer(server, 1, "initialize", _INITIALIZE)
        _send(server, {"method": "notifications/initialized"})
        assert (await _answer(server, 2, "tools/list", {}))["tools"]
        yield time.perf_counter() - began
    finally:
        assert server.stdin is not None
        server.stdin.close()
        await server.wait()


async def _answer(
    server: asyncio.subprocess.Process, number: int, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    _send(server, {"id": number, "method": method, "params": params})
    assert server.stdout is not None
    while line := await server.stdout.readline():
        message = json.loads(line)
        if message.get("id") == number:
            return message["result"]
    raise AssertionError(f"outlast mcp ended before it had answered {method}")


def _send(server: asyncio.subprocess.Process, message: dict[str, Any]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
