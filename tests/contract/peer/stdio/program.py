"""Both servers as programs that a client starts, and what is said to them on their standard input and output."""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.contract.peer.process.server import program_of_peer
from tests.support.http.mcp_wire import LEGACY
from tests.support.paths import ROOT
from tests.support.stacks.service import Service, settings_environment

Json = dict[str, Any]
_LONGEST_LINE = 10_000_000
_ids = itertools.count(1)


class Program:
    """One that runs, and speaks MCP of 2025-11-25. It is asked one thing at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    async def initialize(self, name: str) -> None:
        """The handshake of a client of this name."""
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
        await self.request("initialize", hello)
        self.notify("notifications/initialized", {})

    async def request(self, method: str, params: Json) -> Json:
        """The result."""
        number = self.send(method, params)
        while (message := await self.message()).get("id") != number:
            pass
        return message["result"]

    def send(self, method: str, params: Json) -> int:
        """The id of a request, whose answer is among the messages that come."""
        number = next(_ids)
        self._write({"id": number, "method": method, "params": params})
        return number

    def notify(self, method: str, params: Json) -> None:
        self._write({"method": method, "params": params})

    async def message(self) -> Json:
        """What it says next."""
        line = await self._stdout.readline()
        assert line, "it has ended"
        return json.loads(line)

    def _write(self, message: Json) -> None:
        self._stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@asynccontextmanager
async def started(command: Sequence[str], environment: Mapping[str, str], name: str) -> AsyncIterator[Program]:
    """A program as its client, who has this name, has started it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=ROOT, stdin=pipe, stdout=pipe, limit=_LONGEST_LINE
    )
    try:
        program = Program(process)
        await program.initialize(name)
        yield program
    finally:
        process.kill()
        await process.wait()


def peer(service: Service, folder: Path, *flags: str, **variables: str) -> tuple[list[str], dict[str, str]]:
    """The command of the peer, and its environment."""
    command, environment = program_of_peer("stdio.js", folder, service.sandbox)
    del environment["TELEMETRY_ENABLED"]
    return [*command, *flags], environment | variables


def ours(service: Service, folder: Path, *flags: str, **variables: str) -> tuple[list[str], dict[str, str]]:
    """The command of `outlast mcp`, and its environment."""
    variables |= {"OUTLAST_MODE": "apify", "OUTLAST_DATA_DIR": str(folder)}
    environment = settings_environment(service.temporal_address, service.sandbox, **variables)
    return [sys.executable, "-m", "tests.contract.peer.stdio.outlast_mcp", *flags], environment
