"""The system under measurement: a fresh embedded stack per benchmark, and beside it the yardstick's worker."""

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from temporalio.client import Client

from outlast.deploy.local.config import Component, StackConfig
from outlast.deploy.local.stack import Stack
from outlast.deploy.local.state import ensure_sandbox_token
from tests.benchmarks.rest_caller import RestCaller
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.stack_config import clean_environment, free_ports_config

BARE_TASK_QUEUE = "bare"
_READY_SECONDS = 180.0
"""The machine may be busy."""
_COUNTED_EVERY_SECONDS = 2.5
"""The server shows what it has counted a second later, or two."""
_ACTION = re.compile(r"^action(?:_total)?\{.*\} ([0-9.e+]+)$", re.MULTILINE)
_WRITE = re.compile(
    r"^persistence_requests(?:_total)?\{.*operation=\"(?:Append|Complete|Create|Delete|Update|Upsert)\w*\".*\} "
    r"([0-9.e+]+)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class TemporalCounts:
    """Actions (what the hosted version bills), and writes that were asked of the database."""

    actions: float
    writes: float


@dataclass(frozen=True)
class System:
    """A running stack, and how to reach its parts."""

    stack: Stack
    token: str
    temporal: Client
    config: StackConfig = field(compare=False)
    data_dir: Path

    def caller(self, token: str | None = None) -> RestCaller:
        """A new connection to the API, of the caller with this token."""
        url = urlsplit(str(self.stack.addresses.api_url))
        return RestCaller(str(url.hostname), int(url.port or 0), token)

    def memory_bytes(self, component: Component) -> int:
        """Resident memory of a part."""
        pid = self.stack.pid(component)
        assert pid is not None
        return psutil.Process(pid).memory_info().rss

    def processor_seconds(self) -> dict[str, float]:
        """The processor time that each part has taken so far, by its name."""
        pids = {component.value: self.stack.pid(component) for component in Component}
        times = {name: psutil.Process(pid).cpu_times() for name, pid in pids.items() if pid is not None}
        return {name: spent.user + spent.system for name, spent in times.items()}

    async def new_dataset(self, rows: list[dict[str, Any]]) -> str:
        """Id of a dataset with these rows."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(base_url=self._sandbox_url, headers=headers, trust_env=False) as http:
            created = (await http.post("/v2/datasets")).raise_for_status()
            dataset_id: str = created.json()["data"]["id"]
            (await http.post(f"/v2/datasets/{dataset_id}/items", json=rows)).raise_for_status()
        return dataset_id

    async def sandbox_counters(self) -> dict[str, Any]:
        """What the platform itself has counted."""
        async with httpx.AsyncClient(base_url=self._sandbox_url, trust_env=False, timeout=30) as http:
            return (await http.get("/sandbox/counters")).raise_for_status().json()

    async def billable_actions(self) -> float:
        """How many actions the Temporal server has counted (what its hosted version bills), when it counts no more."""
        before, counted = -1.0, (await self.temporal_counts()).actions
        while counted != before:
            await asyncio.sleep(_COUNTED_EVERY_SECONDS)
            before, counted = counted, (await self.temporal_counts()).actions
        return counted

    async def temporal_counts(self) -> TemporalCounts:
        """What the Temporal server has counted so far, at rest or not."""
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            text = (await http.get(str(self.stack.addresses.temporal_metrics_url))).raise_for_status().text
        actions, writes = (sum(float(value) for value in line.findall(text)) for line in (_ACTION, _WRITE))
        return TemporalCounts(actions, writes)

    @property
    def _sandbox_url(self) -> str:
        return str(self.stack.addresses.sandbox_url)


@asynccontextmanager
async def running_system(
    *,
    in_process: tuple[str, ...] = (),
    runs_at_once: int = 25,
    tools_from: str | None = None,
    environment: Mapping[str, str] | None = None,
    actors: Path | None = None,
    on: Path | None = None,
) -> AsyncGenerator[System]:
    """A stack on a directory of its own, with a new Temporal server on disk. `in_process` Actors need no process.

    `environment` is added to that of its processes; `actors` is a folder of further Actors. With `on`, the stack goes
    on with the data directory `on`, which stays.
    """
    with new_data_dir() if on is None else nullcontext(on) as data_dir:
        token = ensure_sandbox_token(data_dir)
        port = free_port()
        sandbox = _sandbox_command(data_dir, port, token, in_process, runs_at_once)
        config = free_ports_config(
            data_dir,
            *Component,
            sandbox_port=port,
            commands={Component.SANDBOX: (*sandbox, *(("--actors", str(actors)) if actors else ()))},
            ready_timeout_seconds=_READY_SECONDS,
            environment=clean_environment(OUTLAST_LOG_LEVEL="warning", **(environment or {})),
            tools_from=tools_from,
        )
        async with Stack(config) as stack:
            temporal = await Client.connect(str(stack.addresses.temporal_address))
            system = System(stack, token, temporal, config, data_dir)
            async with system.caller() as caller:
                await eventually(lambda: _takes_calls(caller))
            with _logs_kept(data_dir):
                yield system


@contextmanager
def new_data_dir() -> Generator[Path]:
    """An empty directory for stacks, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        yield Path(folder)


@contextmanager
def _logs_kept(data_dir: Path) -> Generator[None]:
    """Keep the logs when a benchmark fails: the directory of its stack is removed."""
    try:
        yield
    except BaseException:
        kept = tempfile.mkdtemp(prefix="outlast-bench-logs-")
        shutil.copytree(data_dir / "logs", kept, dirs_exist_ok=True)
        print(f"the logs are kept in {kept}", file=sys.stderr)
        raise


@asynccontextmanager
async def bare_worker(system: System) -> AsyncGenerator[int]:
    """The yardstick's worker, on the same Temporal server and the same platform; its process id."""
    addresses = system.stack.addresses
    environment = clean_environment(APIFY_TOKEN=system.token, APIFY_API_BASE_URL=str(addresses.apify_api_base_url))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.benchmarks.bare_worker",
        str(addresses.temporal_address),
        BARE_TASK_QUEUE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line == b"ready\n", line
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _takes_calls(caller: RestCaller) -> bool:
    status, body = await caller.get("/readyz")
    return status == 200 and body["checks"]["worker"] == "ok"


def _sandbox_command(
    data_dir: Path, port: int, token: str, in_process: tuple[str, ...], runs_at_once: int
) -> tuple[str, ...]:
    command = [sys.executable, "-m", "outlast.deploy.local.sandbox", "--port", str(port), "--token", token]
    command += ["--data-dir", str(data_dir / "sandbox")]
    command += ["--max-concurrent-runs", str(runs_at_once), "--memory-limit-mbytes", str(runs_at_once * 1024)]
    for actor in in_process:
        command += ["--in-process", actor]
    return tuple(command)
