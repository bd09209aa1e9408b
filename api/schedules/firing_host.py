"""`FiringHost`: the part of the API that takes what is due. It polls a queue of its own, beside all requests."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from temporalio.service import RPCError
from temporalio.worker import Worker

from outlast.activities.schedules.activities import FiringStartActivities
from outlast.api.schedules.firings import CallerFirings
from outlast.api.settings import ApiSettings
from outlast.worker.connection import connect, worker_identity
from outlast.worker.telemetry import build_runtime
from outlast.workflows.contracts.queues import SCHEDULES_TASK_QUEUE

log = logging.getLogger("outlast.api")

_AT_ONCE = 8
"""Firings that one process starts at a time; the others wait in the queue, also for other processes."""
_PAUSE_SECONDS = 1.0


class FiringHost:
    """Takes firings while Temporal can be reached."""

    def __init__(self, settings: ApiSettings, firings: CallerFirings) -> None:
        """Connect as `settings` say, and start with `firings`."""
        self._settings = settings
        self._firings = firings

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Take firings within the block. At its end those under way are left to another process, or to a later one."""
        hosting = asyncio.create_task(self._host())
        try:
            yield
        finally:
            hosting.cancel()
            with suppress(asyncio.CancelledError):
                await hosting

    async def _host(self) -> None:
        """Host one worker after the other: one ends when Temporal refuses what it asks for."""
        said, runtime = False, build_runtime()
        while True:
            try:
                client = await connect(self._settings, runtime, identity=worker_identity())
                worker = Worker(
                    client,
                    task_queue=SCHEDULES_TASK_QUEUE,
                    activities=[FiringStartActivities(self._firings).start_firing],
                    max_concurrent_activities=_AT_ONCE,
                    max_concurrent_activity_task_polls=2,
                    graceful_shutdown_timeout=timedelta(0),
                )
                await worker.run()
            except (RuntimeError, RPCError) as error:
                if not said:
                    log.info("Firings of schedules wait until Temporal can be reached: %s", error)
                said = True
            await asyncio.sleep(_PAUSE_SECONDS)
