"""APIs with settings of a test: in the test process, or as processes that may be killed."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from pydantic import SecretStr
from temporalio.client import Client

from outlast.activities.object_store import OutputObjects
from outlast.api.app import build_app
from outlast.api.http.client_connections import limited_protocol
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from outlast.worker.connection import OutlastPlugin
from tests.support.http.api_client import api_client
from tests.support.http.in_process import listening, serving
from tests.support.ports import free_port
from tests.support.processes.module_process import ServedProcess, started_module
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import SEAL_KEYS, Service, settings_environment
from tests.support.stacks.stack_config import clean_environment


def api_settings(sandbox: Sandbox, **settings: Any) -> ApiSettings:
    """Settings that fit the shared service, but for `settings`."""
    given = {
        "apify_api_base_url": sandbox.url,
        "apify_token": SecretStr(sandbox.token),
        "seal_keys": SecretStr(SEAL_KEYS),
        "default_actors": "outlast/sleeper",
        # Tests name models as they like.
        "model_limits": {"openai/*": {}, "anthropic/*": {}, "zai/*": {}},
    }
    return ApiSettings.model_validate({**given, **settings})


async def connect(
    address: str, *, namespace: str = "default", lazy: bool = False, objects: OutputObjects | None = None
) -> Client:
    """A Temporal client as every Outlast process has it; it reads large payloads when given their store."""
    return await Client.connect(address, namespace=namespace, plugins=[OutlastPlugin(objects)], lazy=lazy)


@asynccontextmanager
async def serving_api(
    client: Client, settings: ApiSettings, *, whole: bool = False, listener: socket.socket | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the API until the end of the block, on a free port or on `listener`; gives an HTTP client for it.

    With `whole`, it also serves MCP and watches its policy file.
    """
    if listener is None:
        listener, _ = listening()
    protocol = limited_protocol(
        request_seconds=settings.request_seconds,
        connections_per_address=settings.connections_per_address,
        unread_seconds=settings.unread_seconds,
    )
    app = build_app(Services(settings, client))
    async with (
        serving(app, listener, http=protocol, lifespan="on" if whole else "off"),
        api_client(f"http://127.0.0.1:{listener.getsockname()[1]}") as http,
    ):
        yield http


class MortalApi:
    """An API process that a test may kill and start again, always at the same `url`."""

    def __init__(self, service: Service, log: Path, stack: ExitStack, **extra: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log, self._stack = log, stack
        self._environment = settings_environment(
            service.temporal_address,
            service.sandbox,
            OUTLAST_DATA_DIR=str(service.folder),
            OUTLAST_API_PORT=str(port),
            **extra,
        )
        self._served: ServedProcess | None = None

    async def start(self) -> None:
        """Return when it answers."""
        served = started_module(
            "outlast.api", ready_url=f"{self.url}/readyz", log=self._log, environment=self._environment
        )
        self._served = self._stack.enter_context(served)
        await asyncio.to_thread(self._served.await_answer)

    def kill(self) -> None:
        """Nothing of it is left on return."""
        assert self._served is not None
        self._served.process.kill()
        self._served.process.wait()


@dataclass(frozen=True)
class LoneApi:
    """A running API process."""

    url: str
    pid: int
    log: Path

    def memory_mb(self) -> float:
        """Its resident memory, in MiB."""
        return psutil.Process(self.pid).memory_info().rss / 2**20

    def processor_seconds(self) -> float:
        """Processor time that it has used so far."""
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system


@contextmanager
def running_lone_api(folder: Path, *, host: str = "127.0.0.1", **settings: str) -> Iterator[LoneApi]:
    """Run one until the end of the block, with `settings` in its environment."""
    port = free_port()
    url = f"http://{host if ':' not in host else f'[{host}]'}:{port}"
    environment = clean_environment(
        TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}",
        OUTLAST_SEAL_KEYS=SEAL_KEYS,
        OUTLAST_DATA_DIR=str(folder),
        OUTLAST_API_HOST=host,
        OUTLAST_API_PORT=str(port),
        **{"OUTLAST_DEFAULT_ACTORS": "", **settings},
    )
    log = folder / "api.log"
    with started_module("outlast.api", ready_url=f"{url}/healthz", log=log, environment=environment) as served:
        served.await_answer()
        yield LoneApi(url, served.process.pid, log)
