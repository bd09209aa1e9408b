"""Outlast as processes, worker and API, on a real Temporal server and the sandbox platform."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

import httpx

from tests.support.http.api_client import api_client
from tests.support.ports import free_port
from tests.support.processes.module_process import ServedProcess, started_module
from tests.support.stacks.sandbox import Sandbox, running_sandbox
from tests.support.stacks.stack_config import clean_environment
from tests.support.stacks.temporal import running_temporal

SEAL_KEYS = "test:" + base64.b64encode(bytes(range(32))).decode()
"""One key ring for all processes of a test run."""


@dataclass(frozen=True)
class Service:
    """A worker and an API that serve one namespace."""

    folder: Path
    api_url: str
    worker_metrics_url: str
    temporal_address: str
    namespace: str
    sandbox: Sandbox
    api: ServedProcess
    worker: ServedProcess
    temporal_metrics_url: str = ""
    """The Temporal server's own metrics; empty when the server is somebody else's."""
    temporal_ui_url: str | None = None
    """Only where it was asked for."""

    def http(self, token: str | None = None, *, timeout_seconds: float = 120) -> httpx.AsyncClient:
        """A client of the API: of the caller with this token, or of one without any."""
        return api_client(self.api_url, token, timeout_seconds=timeout_seconds)

    @property
    def outputs(self) -> Path:
        """The folder of its output store."""
        return self.folder / "outputs"


def settings_environment(
    temporal_address: str, sandbox: Sandbox, *, namespace: str = "default", **extra: str
) -> dict[str, str]:
    """The environment of a worker or an API."""
    settings = {
        "TEMPORAL_ADDRESS": temporal_address,
        "TEMPORAL_NAMESPACE": namespace,
        "OUTLAST_SEAL_KEYS": SEAL_KEYS,
        "OUTLAST_LOG_FORMAT": "json",
        "OUTLAST_START_SETTLE_SECONDS": "1",
        "OUTLAST_SHUTDOWN_SECONDS": "1",
        "OUTLAST_TAKEOVER_SECONDS": "2",
        "OUTLAST_DEFAULT_ACTORS": "outlast/sleeper",
        "OUTLAST_CONSOLE_URL": "https://console.example",
        "OUTLAST_TEMPORAL_UI_URL": "https://temporal.example",
        "APIFY_API_BASE_URL": sandbox.url,
        "APIFY_TOKEN": sandbox.token,
        "PYTHONUNBUFFERED": "1",
    }
    return clean_environment(**{**settings, **extra})


@contextmanager
def running_service(
    folder: Path, temporal_address: str, sandbox: Sandbox, *, namespace: str = "default", **extra: str
) -> Iterator[Service]:
    """Run worker and API on free ports until the end of the block; `extra` is added to their environment."""
    worker_port, api_port = free_port(), free_port()
    worker_url, api_url = f"http://127.0.0.1:{worker_port}", f"http://127.0.0.1:{api_port}"
    environment = settings_environment(
        temporal_address,
        sandbox,
        namespace=namespace,
        OUTLAST_DATA_DIR=str(folder),
        OUTLAST_WORKER_METRICS_PORT=str(worker_port),
        OUTLAST_API_PORT=str(api_port),
        **extra,
    )
    with ExitStack() as stack:
        worker = stack.enter_context(
            started_module(
                "outlast.worker", ready_url=f"{worker_url}/metrics", log=folder / "worker.log", environment=environment
            )
        )
        api = stack.enter_context(
            started_module(
                "outlast.api", ready_url=f"{api_url}/readyz", log=folder / "api.log", environment=environment
            )
        )
        worker.await_answer()
        api.await_answer(_has_a_worker)
        yield Service(folder, api_url, f"{worker_url}/metrics", temporal_address, namespace, sandbox, api, worker)


def _has_a_worker(readiness: httpx.Response) -> bool:
    """Whether a worker polls for tasks: it answers requests for its metrics a little earlier."""
    return readiness.json()["checks"]["worker"] == "ok"


class OutlastOptions(TypedDict, total=False):
    """How an Outlast for tests differs from the plain one."""

    tools: Sequence[str]
    """Modules with tools."""
    callers: Mapping[str, str]
    """The API key of each known caller; without any, a caller without a token is `local`."""
    permissions: Sequence[str]
    """Rules of who may call what."""
    actors: Path
    """A folder of Actors that the platform offers beside its own."""
    sandbox: Sandbox
    """A platform that runs already, instead of one of its own."""
    ui: bool
    """Whether the Temporal server serves its UI."""
    database: bool
    """Whether the Temporal server keeps its state in a file, in `folder`, instead of in memory."""
    settings: Mapping[str, str]
    """Further environment variables of worker and API."""


@contextmanager
def running_outlast(folder: Path, **options: Unpack[OutlastOptions]) -> Iterator[Service]:
    """A service on a Temporal server of its own, since the workers of other services poll the same task queues."""
    with ExitStack() as stack:
        database = folder / "temporal.db" if options.get("database") else None
        temporal = stack.enter_context(running_temporal(folder, ui=options.get("ui", False), database=database))
        sandbox = options.get("sandbox")
        if sandbox is None:
            actors = ("--actors", str(options["actors"])) if "actors" in options else ()
            sandbox = stack.enter_context(running_sandbox(folder, *actors))
        service = stack.enter_context(running_service(folder, temporal.address, sandbox, **_settings(options)))
        yield replace(service, temporal_metrics_url=temporal.metrics_url, temporal_ui_url=temporal.ui_url)


def _settings(options: OutlastOptions) -> dict[str, str]:
    callers = options.get("callers", {}).items()
    lists = {
        "OUTLAST_TOOLS_FROM": options.get("tools", ()),
        "OUTLAST_API_KEYS": [f"{name}:{key}" for name, key in callers],
        "OUTLAST_PERMISSIONS": options.get("permissions", ()),
    }
    return {name: ",".join(values) for name, values in lists.items() if values} | dict(options.get("settings", {}))
