"""Makes sure that every queued task has a dispatcher, whatever happened to the one that was signalled."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from temporalio.client import Client
from temporalio.service import RPCError

from outlast.activities.dispatch.contracts import DispatchInput, queued_query
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import TemporalUnavailable
from outlast.api.temporal.dispatching import signal_dispatcher
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.task_view import owner_of
from outlast.workflows.contracts import search_attributes

LOOK_SECONDS = 60.0
_MAX_CALLERS = 50
"""Callers that one look finds at most. Each costs a query."""

log = logging.getLogger("outlast.api")


class QueueKeeper:
    """Looks for queued tasks once a minute, and tells the dispatchers of their callers."""

    def __init__(self, client: Client, policy: PolicySource) -> None:
        """Have tasks released as the `policy` in force says."""
        self._client = client
        self._policy = policy

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Look at once, and then every minute, until left."""
        task = asyncio.create_task(self._look_forever())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _look_forever(self) -> None:
        while True:
            try:
                with temporal_errors():
                    await self._look()
            except (RPCError, RuntimeError, TemporalUnavailable) as error:
                log.warning("Queued tasks cannot be looked for: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """One query per caller: a list of all tasks would be long, and most of them one caller's."""
        others = queued_query()
        for _ in range(_MAX_CALLERS):
            found = [one async for one in self._client.list_workflows(others, limit=1, page_size=1)]
            caller_id = owner_of(found[0]) if found else None
            if caller_id is None:
                return
            share = self._policy.of(caller_id).limits.concurrent_tasks
            await signal_dispatcher(self._client, DispatchInput(caller_id=caller_id, share=share))
            others += f" AND {search_attributes.CALLER.name} != {search_attributes.quoted(caller_id)}"
