"""FastMCP's background tasks: an MCP server whose tools run in its embedded docket worker, with its state in Redis."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.contract import CALLERS, Peer, app_environment
from tests.benchmarks.peers.environments import python_of, version_of, version_told
from tests.benchmarks.peers.platform import platform
from tests.benchmarks.peers.processes import APPS, PeerProcess, started
from tests.benchmarks.peers.redis import redis_server, running_redis
from tests.benchmarks.rest_caller import RestCaller
from tests.support.http.mcp_wire import KNOWS_TASKS, MODERN
from tests.support.ports import free_port
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.stack_config import clean_environment

_META = "io.modelcontextprotocol"
_ENDS = {"completed": True, "failed": False, "cancelled": False}
_FIRST_PAUSE_SECONDS = 0.02
"""How FastMCP's own client asks for a task: at once, then after a pause that doubles up to what the server says."""
_ids = itertools.count(1)


class McpConnection:
    """A connection that speaks the revision of MCP which has tasks."""

    def __init__(self, caller: RestCaller) -> None:
        self._caller = caller

    async def read_rows(self, dataset_id: str) -> int:
        """See `Connection`."""
        task = await self._call_tool("read", {"dataset_id": dataset_id})
        pause = _FIRST_PAUSE_SECONDS
        while (task := await self._task(task["taskId"]))["status"] == "working":
            await asyncio.sleep(pause)
            pause = min(pause * 2, task["pollIntervalMs"] / 1000)
        assert task["status"] == "completed", task
        return len(json.loads(task["result"]["content"][0]["text"]))

    async def start_run(self, call_id: str, seconds: float) -> str:
        """See `Connection`."""
        return (await self._call_tool("run", {"call_id": call_id, "seconds": seconds}))["taskId"]

    async def has_ended(self, ticket: str) -> bool | None:
        """See `Connection`."""
        return _ENDS.get((await self._task(ticket))["status"])

    async def _call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._request("tools/call", {"name": name, "arguments": arguments}, name)

    async def _task(self, task_id: str) -> dict[str, Any]:
        return await self._request("tasks/get", {"taskId": task_id}, task_id)

    async def _request(self, method: str, params: dict[str, Any], name: str) -> dict[str, Any]:
        meta = {f"{_META}/protocolVersion": MODERN, f"{_META}/clientCapabilities": KNOWS_TASKS}
        body = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": {**params, "_meta": meta}}
        fields = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            "Mcp-Name": name,
        }
        status, answer = await self._caller.post("/mcp", body, fields=fields)
        assert status == 200, answer
        assert "result" in answer, answer
        return answer["result"]


@dataclass(frozen=True)
class RunningServer:
    """The server runs on `port`, with its worker in the same process."""

    sandbox: Sandbox
    port: int
    server: PeerProcess

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[McpConnection]:
        """See `Running`."""
        async with RestCaller("127.0.0.1", self.port) as caller:
            yield McpConnection(caller)

    def kill(self) -> None:
        """See `Running`."""
        self.server.restart_after_kill()


@asynccontextmanager
async def _running(folder: Path) -> AsyncGenerator[RunningServer]:
    port = free_port()
    with platform(folder) as sandbox:
        async with running_redis(folder) as redis_url:
            command = (python_of("fastmcp"), APPS / "fastmcp_app.py", port, redis_url, CALLERS)
            environment = app_environment(sandbox, {"FASTMCP_LOG_LEVEL": "WARNING"}, clean_environment())
            async with started(command, folder / "fastmcp.log", environment) as server:
                await server.await_answer(f"http://127.0.0.1:{port}/mcp")
                yield RunningServer(sandbox, port, server)


def _install() -> None:
    python_of("fastmcp")
    redis_server()


FASTMCP = Peer(
    name="FastMCP tasks, Redis",
    versions=lambda: (
        f"fastmcp-tasks {version_of('fastmcp', 'fastmcp-tasks')}, pydocket {version_of('fastmcp', 'pydocket')}, "
        f"Redis {version_told('redis-server')}"
    ),
    front="MCP over HTTP, called as by its client",
    settings=f"{CALLERS} tasks at once in the server's own worker; Redis with an append-only file, 1,000 connections",
    recommended_by="https://gofastmcp.com/servers/tasks",
    promises="an interrupted task is repeated from its beginning, 300 to 400 s later",
    install=_install,
    running=_running,
)
