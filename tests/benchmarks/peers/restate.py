"""Restate: one server program, which calls a service of handlers and keeps the journal of their steps."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx

from tests.benchmarks.peers.contract import Peer, app_environment
from tests.benchmarks.peers.environments import python_of, restate_server, version_of, version_told
from tests.benchmarks.peers.platform import platform
from tests.benchmarks.peers.processes import PeerProcess, started
from tests.benchmarks.rest_caller import RestCaller
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.stack_config import clean_environment

_WORKERS = 2
"""Processes of the service: one per core of the machine that the committed figures are from."""
_NOT_READY = 470
"""Restate's status for an invocation that has not ended."""


class IngressConnection:
    """A connection to Restate's ingress."""

    def __init__(self, caller: RestCaller) -> None:
        self._caller = caller

    async def read_rows(self, dataset_id: str) -> int:
        """See `Connection`."""
        status, rows = await self._caller.post("/Calls/read", {"dataset_id": dataset_id}, idempotency_key=uuid4().hex)
        assert status == 200, rows
        return len(rows)

    async def start_run(self, call_id: str, seconds: float) -> str:
        """See `Connection`."""
        order = {"call_id": call_id, "seconds": seconds}
        status, answer = await self._caller.post("/Calls/run/send", order, idempotency_key=call_id)
        assert status == 202, answer
        return answer["invocationId"]

    async def has_ended(self, ticket: str) -> bool | None:
        """See `Connection`."""
        status, _ = await self._caller.get(f"/restate/invocation/{ticket}/output")
        return None if status == _NOT_READY else status == 200


@dataclass(frozen=True)
class RunningRestate:
    """The server's ingress is on `port`; `service` executes the handlers."""

    sandbox: Sandbox
    port: int
    service: PeerProcess

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[IngressConnection]:
        """See `Running`."""
        async with RestCaller("127.0.0.1", self.port) as caller:
            yield IngressConnection(caller)

    def kill(self) -> None:
        """See `Running`."""
        self.service.restart_after_kill()


@asynccontextmanager
async def _running(folder: Path) -> AsyncGenerator[RunningRestate]:
    with platform(folder) as sandbox:
        service_port = free_port()
        (folder / "hypercorn.toml").write_text(_hypercorn(service_port))
        serve = (python_of("restate"), "-m", "hypercorn", "--config", folder / "hypercorn.toml", "restate_app:app")
        environment = app_environment(sandbox, {}, clean_environment())
        async with (
            started(serve, folder / "restate-service.log", environment) as service,
            _server(folder) as (ingress, admin),
        ):
            await service.await_answer(f"http://127.0.0.1:{service_port}/health")
            await _register(f"http://127.0.0.1:{admin}", f"http://127.0.0.1:{service_port}")
            yield RunningRestate(sandbox, ingress, service)


def _hypercorn(port: int) -> str:
    """The file that Restate's documentation recommends, but for the number of processes."""
    most = 2**31 - 1
    return (
        f'bind = "127.0.0.1:{port}"\nh2_max_concurrent_streams = {most}\nkeep_alive_max_requests = {most}\n'
        f"keep_alive_timeout = {most}\nworkers = {_WORKERS}\n"
    )


@asynccontextmanager
async def _server(folder: Path) -> AsyncGenerator[tuple[int, int]]:
    """The ports of its ingress and of its admin API."""
    ingress, admin, node = free_port(), free_port(), free_port()
    own = {
        "RESTATE_INGRESS__BIND_PORT": str(ingress),
        "RESTATE_ADMIN__BIND_PORT": str(admin),
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
        "DO_NOT_TRACK": "1",
    }
    command = (restate_server(), "--base-dir", folder / "restate-data", "--node-name", "bench", "--no-logo")
    async with started(command, folder / "restate-server.log", {**clean_environment(), **own}) as server:
        await server.await_answer(f"http://127.0.0.1:{admin}/health")
        await server.await_answer(f"http://127.0.0.1:{ingress}/restate/health")
        yield ingress, admin


async def _register(admin: str, service: str) -> None:
    async with httpx.AsyncClient(base_url=admin, trust_env=False, timeout=60) as http:

        async def registered() -> bool:
            return (await http.post("/deployments", json={"uri": service})).is_success

        await eventually(registered, 60, 0.2)


def _install() -> None:
    python_of("restate")
    restate_server()


RESTATE = Peer(
    name="Restate",
    versions=lambda: (
        f"restate-server {version_told(str(restate_server()))}, restate-sdk {version_of('restate', 'restate-sdk')}"
    ),
    front="its HTTP ingress",
    settings=f"one server with its defaults; the service as its guide has it, with {_WORKERS} processes",
    recommended_by="https://docs.restate.dev/develop/python/serving",
    promises="an invocation ends; an interrupted step is repeated",
    install=_install,
    running=_running,
)
