"""Looks for tasks and turns that cannot go on, and has them ended. Every worker looks; each is ended once."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from outlast.activities.stuck_tasks.assess import STUCK_QUERY, assess
from outlast.activities.stuck_tasks.contracts import EndStuckInput, StuckLimits
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.stuck import EndStuckWorkflow

LONGEST_PAUSE_SECONDS = 60.0
_MAX_AT_ONCE = 100

log = logging.getLogger("outlast.worker")


@asynccontextmanager
async def ending_stuck_tasks(client: Client, limits: StuckLimits | None) -> AsyncGenerator[None]:
    """Have stuck workflows ended while the block runs; None ends nothing."""
    if limits is None:
        yield
        return
    task = asyncio.create_task(_look_forever(client, limits))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _look_forever(client: Client, limits: StuckLimits) -> None:
    pause = min(LONGEST_PAUSE_SECONDS, max(1.0, limits.after_seconds / 10))
    while True:
        try:
            await _look(client, limits)
        except (RPCError, RuntimeError) as error:
            log.warning("Stuck tasks cannot be looked for: %s", error)
        await asyncio.sleep(pause)


async def _look(client: Client, limits: StuckLimits) -> None:
    async for found in client.list_workflows(STUCK_QUERY, limit=_MAX_AT_ONCE, page_size=_MAX_AT_ONCE):
        _, _, stuck = await assess(client, found.id, found.run_id, limits)
        if stuck is None:
            continue
        log.error("%s cannot go on after %d attempts: %s", found.id, stuck.attempts, stuck.reason)
        await client.start_workflow(
            EndStuckWorkflow.run,
            EndStuckInput(workflow_id=found.id, run_id=found.run_id, limits=limits),
            id=f"end-stuck:{found.id}",
            task_queue=TOOLS_TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary="end of a stuck task",
        )
