"""Workers and API processes beside those of a running stack, on the same Temporal server, store and keys."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from outlast.deploy.local.plan import stack_environment
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System
from tests.support.eventually import eventually
from tests.support.ports import free_port

_HOST = "127.0.0.1"
_STOP_SECONDS = 30


@dataclass(frozen=True)
class Added:
    """A process that was added to a stack; a signal is the only thing that ends it before the block does."""

    process: asyncio.subprocess.Process
    port: int

    def caller(self) -> RestCaller:
        """A connection to it, if it is an API process."""
        return RestCaller(_HOST, self.port)


@asynccontextmanager
async def added_worker(system: System) -> AsyncGenerator[Added]:
    """Another worker, which polls when the block begins."""
    port = free_port()
    async with _running(
        system, "outlast.worker", f"worker-{port}", {"OUTLAST_WORKER_METRICS_PORT": str(port)}, port
    ) as one:
        await eventually(lambda: _answers(f"http://{_HOST}:{port}/metrics"))
        yield one


@asynccontextmanager
async def added_api(system: System) -> AsyncGenerator[Added]:
    """Another API process, which answers when the block begins."""
    port = free_port()
    # Each process has its own chain of audit records.
    own = {"OUTLAST_API_PORT": str(port), "OUTLAST_AUDIT_FILE": str(system.data_dir / "audit" / f"audit-{port}.jsonl")}
    async with _running(system, "outlast.api", f"api-{port}", own, port) as one:
        await eventually(lambda: _answers(f"http://{_HOST}:{port}/readyz"))
        yield one


@asynccontextmanager
async def _running(system: System, module: str, name: str, own: Mapping[str, str], port: int) -> AsyncGenerator[Added]:
    environment = {**stack_environment(system.config, system.stack.addresses), **own}
    log: Path = system.data_dir / "logs" / f"{name}.log"
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", module, env=environment, stdout=output, stderr=output
        )
    try:
        yield Added(process, port)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
            return (await http.get(url)).is_success
    return False
