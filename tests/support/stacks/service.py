"""Outlast as processes, worker and API, on a real Temporal server and the sandbox platform."""

import base64
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port
from tests.support.processes.served_process import ServedProcess, started_module
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
        for process in (worker, api):
            process.await_answer()
        yield Service(folder, api_url, f"{worker_url}/metrics", temporal_address, namespace, sandbox, api, worker)


@contextmanager
def running_outlast(folder: Path, **extra: str) -> Iterator[Service]:
    """A service on a Temporal server and a sandbox platform of its own.

    For whatever has tools, callers or a store that other services know nothing of: their workers poll the same queues.
    """
    with (
        running_temporal(folder) as temporal,
        running_sandbox(folder) as sandbox,
        running_service(folder, temporal.address, sandbox, **extra) as service,
    ):
        yield service
