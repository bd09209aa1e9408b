"""Quick calls that the API carries out itself: it starts them eagerly, see `worker.eager`."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import httpx
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.api.settings import ApiSettings
from outlast.worker.connection import connect, worker_identity
from outlast.worker.telemetry import Telemetry, start_telemetry

if TYPE_CHECKING:
    from temporalio.worker import Worker

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
        self._worker: Worker | None = None
        self._client: Client | None = None
        self._is_there = asyncio.Event()

    @property
    def client(self) -> Client | None:
        """What starts quick calls eagerly; None while no worker of this process is there for them."""
        return self._client

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

        At its end no further call is begun, and those under way get the time that a quick read may take.
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
            if self._worker is not None:
                await self._worker.shutdown()
            hosting.cancel()
            with suppress(asyncio.CancelledError):
                await hosting

    async def _host(self, telemetry: Telemetry) -> None:
        """Host one worker after the other: one ends when Temporal refuses what it asks for."""
        # Only a process that hosts one loads it.
        from outlast.worker.eager import eager_worker  # noqa: PLC0415

        said = False
        while True:
            try:
                client = await connect(self._settings, telemetry.runtime, identity=worker_identity())
                self._worker = eager_worker(client, self._settings, slots=self._settings.quick_calls)
                self._client = client
                self._is_there.set()
                await self._worker.run()
                return
            except (RuntimeError, RPCError) as error:
                if not said:
                    log.info("Quick calls are left to the workers for now: %s", error)
                said = True
            finally:
                self._client = self._worker = None
            await asyncio.sleep(_PAUSE_SECONDS)
