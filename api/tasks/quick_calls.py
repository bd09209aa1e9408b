"""Quick calls that the API carries out itself: it starts them eagerly, see `worker.eager.worker`."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import httpx
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.api.settings import ApiSettings
from outlast.worker.connection import connect, worker_identity
from outlast.worker.telemetry import Telemetry, start_telemetry
from outlast.workflows.contracts.tool_calls import ToolCall

if TYPE_CHECKING:
    from outlast.worker.eager_worker import EagerWorker

log = logging.getLogger("outlast.api")

_LOOPBACK = "127.0.0.1"
_START_SECONDS = 3.0
"""How long the API waits for its worker before it serves without one."""
_PAUSE_SECONDS = 1.0


class QuickCalls:
    """Hosts the worker that takes the first step of quick calls, while Temporal can be reached."""

    def __init__(self, settings: ApiSettings) -> None:
        """Have at most `quick_calls` of the settings at once; with 0, none."""
        self._settings = settings
        self._telemetry: Telemetry | None = None
        self._eager: EagerWorker | None = None
        self._client: Client | None = None
        self._is_there = asyncio.Event()

    @property
    def client(self) -> Client | None:
        """The eager starter of quick calls; None while no worker of this process is there for them."""
        return self._client

    @contextmanager
    def reading_ahead(self, call: ToolCall, task_id: str) -> Generator[None]:
        """Begin what the call reads while the block starts its task."""
        if self._eager is None:
            yield
            return
        with self._eager.ahead.of(call, task_id):
            yield

    @property
    def metrics_url(self) -> str | None:
        """Where the worker's metrics are, on loopback; None without one."""
        return self._telemetry.metrics_url if self._telemetry else None

    async def metrics(self) -> bytes:
        """The worker's metrics in the form of Prometheus; nothing without one, or when they cannot be read."""
        if self.metrics_url is None:
            return b""
        try:
            async with httpx.AsyncClient(trust_env=False) as http:
                return (await http.get(self.metrics_url)).raise_for_status().content
        except httpx.HTTPError as error:
            log.warning("The metrics of quick calls cannot be read: %s", error)
            return b""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Host the worker within the block, whenever Temporal can be reached.

        When it ends, no further call is begun, and those under way get the time that a quick read may take.
        """
        if not self._settings.quick_calls:
            yield
            return
        self._telemetry = start_telemetry(_LOOPBACK, 0)
        hosting = asyncio.create_task(self._host(self._telemetry))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_START_SECONDS):
                    await self._is_there.wait()
            yield
        finally:
            self._client = None
            if self._eager is not None:
                await self._eager.worker.shutdown()
            hosting.cancel()
            with suppress(asyncio.CancelledError):
                await hosting

    async def _host(self, telemetry: Telemetry) -> None:
        """Host one worker after the other: one ends when Temporal refuses what it asks for."""
        # Only a process that hosts one loads it.
        from outlast.worker.eager_worker import eager_worker  # noqa: PLC0415

        noted = False
        while True:
            try:
                client = await connect(self._settings, telemetry.runtime, identity=worker_identity())
                self._eager = eager_worker(client, self._settings, slots=self._settings.quick_calls)
                self._client = client
                self._is_there.set()
                await self._eager.worker.run()
                return
            except (RuntimeError, RPCError) as error:
                if not noted:
                    log.info("Quick calls are left to the workers for now: %s", error)
                noted = True
            finally:
                self._client = self._eager = None
            await asyncio.sleep(_PAUSE_SECONDS)
