"""Gateways to MCP servers: Outlast and others, each reached as its users reach it, with parts that can be killed."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

import psutil
from mcp import Client as McpClient
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from outlast.deploy.local.config import Component
from tests.benchmarks.gateway import server
from tests.benchmarks.peers.environments import python_of, version_of
from tests.benchmarks.peers.processes import APPS, PeerProcess, started
from tests.benchmarks.system import System, running_system
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.stack_config import clean_environment
from tests.support.stacks.temporal import running_temporal

End = Literal["answered", "unknown", "failed"]
"""What the caller is told: the answer, that it is unknown whether the call was executed, or only that it failed."""
_AWAY = frozenset({502, 503, 504})


class NotSent(Exception):
    """The gateway cannot be reached, or says that it has not called the tool: the call may be made again."""


class Running(Protocol):
    """A gateway that runs."""

    @property
    def kills(self) -> Mapping[str, Callable[[], None]]:
        """What `kill -9` can hit. Each part is started again at once, by its supervisor or by what uses it."""
        ...

    async def call(self, call: str, arguments: dict[str, Any]) -> End:
        """Call `pay` once, as an agent does. Raises `NotSent`."""
        ...


@dataclass(frozen=True)
class Gateway:
    """One way to call the tools of an MCP server."""

    name: str
    versions: Callable[[], str]
    what_ran: str
    install: Callable[[], None]
    """Raises `CannotRunError`."""
    running: Callable[[Path], AbstractAsyncContextManager[Running]]
    """Start it in a folder, in which the file `effects` has the calls that were executed."""


def _server_command(folder: Path) -> list[str]:
    return [sys.executable, "-S", "-P", server.__file__, str(folder / "effects")]


def _kill_servers(folder: Path) -> None:
    """Kill the processes of the MCP server, wherever they were started."""
    effects = str(folder / "effects")
    for process in psutil.process_iter(["cmdline"]):
        command: list[str] = process.info["cmdline"] or []
        if server.__file__ in command and command[-1] == effects:
            os.kill(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class _Proxy:
    """A proxy that speaks MCP over HTTP."""

    folder: Path
    url: str
    process: PeerProcess

    @property
    def kills(self) -> Mapping[str, Callable[[], None]]:
        return {"gateway": self.process.restart_after_kill, "server": lambda: _kill_servers(self.folder)}

    async def call(self, call: str, arguments: dict[str, Any]) -> End:
        """On a new connection with the revision of the server, as FastMCP demands. What fails before the call is sent
        may be repeated.
        """
        was_sent = False
        self.process.restart_if_ended()  # mcp-proxy ends with its server
        try:
            async with McpClient(self.url, mode="legacy") as client:
                was_sent = True
                answer = await client.call_tool("pay", {"call": call, **arguments})
                return "failed" if answer.is_error else "answered"
        except* Exception as errors:
            if not was_sent:
                raise NotSent(repr(errors.exceptions)) from errors
        return "failed"


@asynccontextmanager
async def _proxy(folder: Path, command: tuple[object, ...], port: int) -> AsyncGenerator[_Proxy]:
    environment = {**clean_environment(), "FASTMCP_LOG_LEVEL": "WARNING"}
    async with started(command, folder / "gateway.log", environment) as process:
        url = f"http://127.0.0.1:{port}/mcp"
        await process.await_answer(url)
        yield _Proxy(folder, url, process)


def _fastmcp(folder: Path) -> AbstractAsyncContextManager[_Proxy]:
    port = free_port()
    app = (python_of("fastmcp-proxy"), APPS / "fastmcp_proxy.py", port, *_server_command(folder))
    return _proxy(folder, app, port)


def _mcp_proxy(folder: Path) -> AbstractAsyncContextManager[_Proxy]:
    port = free_port()
    program = python_of("mcp-proxy").with_name("mcp-proxy")
    return _proxy(folder, (program, "--host", "127.0.0.1", "--port", port, "--", *_server_command(folder)), port)


@dataclass(frozen=True)
class _Workflows:
    """Workflow code with the client of temporalio-mcp."""

    folder: Path
    client: Client
    worker: PeerProcess

    @property
    def kills(self) -> Mapping[str, Callable[[], None]]:
        return {"worker": self.worker.restart_after_kill, "server": lambda: _kill_servers(self.folder)}

    async def call(self, call: str, arguments: dict[str, Any]) -> End:
        """A workflow per call."""
        try:
            handle = await self.client.start_workflow(
                "CallTool", args=["pay", {"call": call, **arguments}], id=call, task_queue="calls", result_type=bool
            )
        except WorkflowAlreadyStartedError:
            handle = self.client.get_workflow_handle(call, result_type=bool)
        except RPCError as error:
            raise NotSent(str(error)) from error
        try:
            return "answered" if await handle.result() else "failed"
        except WorkflowFailureError:
            return "failed"


@asynccontextmanager
async def _temporalio_mcp(folder: Path) -> AsyncGenerator[_Workflows]:
    with running_temporal(folder, database=folder / "temporal.db") as temporal:
        app = (python_of("temporalio-mcp"), APPS / "temporalio_mcp.py", temporal.address, *_server_command(folder))
        async with started(app, folder / "worker.log", clean_environment()) as worker:
            yield _Workflows(folder, await Client.connect(temporal.address), worker)


@dataclass(frozen=True)
class _Outlast:
    """The embedded stack."""

    folder: Path
    system: System

    @property
    def kills(self) -> Mapping[str, Callable[[], None]]:
        return {
            "gateway": lambda: self._kill(Component.API),
            "worker": lambda: self._kill(Component.WORKER),
            "server": lambda: _kill_servers(self.folder),
        }

    def _kill(self, component: Component) -> None:
        pid = self.system.stack.pid(component)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    async def call(self, call: str, arguments: dict[str, Any]) -> End:
        """Through REST, with the call's id as idempotency key: a request without an answer is repeated."""
        order = {"tool": "effects__pay", "arguments": {"call": call, **arguments}}
        ended = await eventually(lambda: self._result(order, call), 300, 0.1)
        if _category(ended) == "conflict":  # it was not called, because the session was lost; told once
            ended = await eventually(lambda: self._result(order, f"{call}-again"), 300, 0.1)
        category = _category(ended)
        return "unknown" if category == "outcome_unknown" else "failed" if category else "answered"

    async def _result(self, order: dict[str, Any], key: str) -> dict[str, Any] | None:
        try:
            async with self.system.caller() as caller:
                status, answer = await caller.post("/v1/tasks", order, idempotency_key=key)
                if status in _AWAY:
                    return None
                assert status in {200, 201, 202}, answer
                status, answer = await caller.get(f"/v1/tasks/{answer['id']}/result?wait=20")
        except (OSError, EOFError):
            return None
        return answer.get("result") if status == 200 else None


def _category(result: dict[str, Any]) -> str | None:
    return (result.get("error") or {}).get("category")


def _outlast(**options: Any) -> Callable[[Path], AbstractAsyncContextManager[_Outlast]]:
    @asynccontextmanager
    async def running(folder: Path) -> AsyncGenerator[_Outlast]:
        command, *arguments = _server_command(folder)
        entry = {"command": command, "args": arguments, "outlast": options}
        file = folder / "servers.json"
        file.write_text(json.dumps({"mcpServers": {"effects": entry}}))
        async with running_system(environment={"OUTLAST_MCP_SERVERS_FILE": str(file)}) as system:
            yield _Outlast(folder, system)

    return running


_VERIFY = {"pay": {"tool": "find", "arguments": {"call": "{call}"}, "done": "structured.done"}}

GATEWAYS = (
    Gateway(
        "Outlast",
        lambda: f"outlast {version('outlast')}",
        "REST with idempotency keys; the embedded stack",
        lambda: None,
        _outlast(),
    ),
    Gateway(
        "Outlast with `verify`",
        lambda: f"outlast {version('outlast')}",
        "the same, and a tool of the server that says whether a call was executed",
        lambda: None,
        _outlast(verify=_VERIFY),
    ),
    Gateway(
        "FastMCP proxy",
        lambda: f"fastmcp {version_of('fastmcp-proxy', 'fastmcp')}",
        "`create_proxy` over HTTP, called with the client of the MCP SDK",
        lambda: _install("fastmcp-proxy"),
        _fastmcp,
    ),
    Gateway(
        "mcp-proxy",
        lambda: f"mcp-proxy {version_of('mcp-proxy', 'mcp-proxy')}",
        "its defaults over HTTP, called with the client of the MCP SDK",
        lambda: _install("mcp-proxy"),
        _mcp_proxy,
    ),
    Gateway(
        "temporalio-mcp",
        lambda: f"temporalio-mcp {version_of('temporalio-mcp', 'temporalio-mcp')}",
        "a workflow with its client and defaults, started through the Temporal SDK",
        lambda: _install("temporalio-mcp"),
        _temporalio_mcp,
    ),
)


def _install(environment: str) -> None:
    python_of(environment)


async def first_call(running: Running, call: str) -> None:
    """Return when a call was answered. Raises `AssertionError`."""

    async def answered() -> bool:
        try:
            return await asyncio.wait_for(running.call(call, {}), 60) == "answered"
        except (NotSent, TimeoutError) as error:
            raise AssertionError(repr(error)) from error

    await eventually(answered, 180, 0.2)
