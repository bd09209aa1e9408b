"""Looks for workflows that cannot continue, of every type, and has them dealt with. Every worker looks.

Each is dealt with once: by `EndStuckWorkflow`. One of those that is stuck itself is started again from here.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from cachetools import TTLCache
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.runtime import Runtime
from temporalio.service import RPCError

from outlast.activities.stuck_tasks.activities import remedied
from outlast.activities.stuck_tasks.assess import assess, failed_attempts, reported
from outlast.activities.stuck_tasks.contracts import (
    CANCELLED_LIMITS,
    END_STUCK,
    REMEDIES,
    EndStuckInput,
    StuckLimits,
    end_stuck_id,
)
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.stuck import EndStuckWorkflow

LONGEST_PAUSE_SECONDS = 15.0
_MAX_ASSESSED = 100
"""Workflows of one look that are assessed."""
_LEFT_ALONE_SECONDS = 600
_MAX_LEFT_ALONE = 10_000

log = logging.getLogger("outlast.worker")


async def cancel_workflow(client: Client, description: WorkflowExecutionDescription) -> None:
    """Request cancellation. A workflow whose steps fail again and again is ended after a grace period, as cancelled.

    Raises `RPCError`.
    """
    await client.get_workflow_handle(description.id).cancel()
    if failed_attempts(description) >= CANCELLED_LIMITS.attempts:
        with suppress(WorkflowAlreadyStartedError):
            await _end(client, description.id, description.run_id, None, CANCELLED_LIMITS.after_seconds)


async def _end(client: Client, workflow_id: str, run_id: str, limits: StuckLimits | None, grace: float = 0) -> None:
    """Raises `WorkflowAlreadyStartedError` while an earlier one runs, which may find that it is too soon, and end."""
    await client.start_workflow(
        EndStuckWorkflow.run,
        EndStuckInput(workflow_id=workflow_id, run_id=run_id, limits=limits, grace_seconds=grace),
        id=end_stuck_id(workflow_id),
        task_queue=TOOLS_TASK_QUEUE,
        static_summary="end of a stuck workflow",
    )


@asynccontextmanager
async def ending_stuck_tasks(client: Client, limits: StuckLimits | None, runtime: Runtime) -> AsyncGenerator[None]:
    """Have stuck workflows dealt with while the block runs. None ends only those that were cancelled."""
    task = asyncio.create_task(_look_forever(StuckWorkflows(client, limits, runtime), limits))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _look_forever(stuck: "StuckWorkflows", limits: StuckLimits | None) -> None:
    after_seconds = limits.after_seconds if limits is not None else CANCELLED_LIMITS.after_seconds
    pause = min(LONGEST_PAUSE_SECONDS, max(1.0, after_seconds / 10))
    while True:
        try:
            await stuck.look()
        except (RPCError, RuntimeError) as error:
            log.warning("Stuck workflows cannot be looked for: %s", error)
        await asyncio.sleep(pause)


class StuckWorkflows:
    """The workflows that Temporal reports because their steps fail, as one worker sees them."""

    def __init__(self, client: Client, limits: StuckLimits | None, runtime: Runtime) -> None:
        """Count them in the metrics of `runtime`."""
        self._client = client
        self._limits = limits
        self._gauge = runtime.metric_meter.create_gauge(
            "outlast_stuck_workflows", "Workflows whose current step has failed five times in a row or more."
        )
        self._left_alone = TTLCache[str, None, float](_MAX_LEFT_ALONE, _LEFT_ALONE_SECONDS)

    async def look(self) -> None:
        """Count them, and have those dealt with that have failed for long enough. Raises `RPCError`."""
        found = [one async for one in reported(self._client)]
        counts = Counter(one.workflow_type for one in found)
        for kind in REMEDIES:
            self._gauge.set(counts[kind], {"workflow": kind, "namespace": self._client.namespace})
        others = [one for one in found if one.run_id not in self._left_alone]
        # At random: those that have to wait must not keep those behind them from being assessed.
        for one in random.sample(others, min(len(others), _MAX_ASSESSED)):
            try:
                await self._deal_with(one)
            except Exception as error:  # noqa: BLE001  # one that cannot be read must not stop the search for others
                log.warning("%s fails, and cannot be handled now: %s", one.id, type(error).__name__)

    async def _deal_with(self, found: WorkflowExecution) -> None:
        """Have one dealt with, if it is stuck."""
        description, events, stuck = await assess(self._client, found.id, found.run_id, self._limits)
        if stuck is None:
            return
        try:
            if found.workflow_type != END_STUCK:
                await _end(self._client, found.id, found.run_id, self._limits)
            elif await remedied(self._client, description, events, stuck) is None:
                handle = self._client.get_workflow_handle(found.id, run_id=found.run_id)
                await handle.terminate(reason=f"Its input cannot be read: {stuck.reason}")
        except WorkflowAlreadyStartedError:
            return  # the one that runs may have looked too early: the next look is after its end
        self._left_alone[found.run_id] = None
        log.error("%s cannot continue after %d attempts: %s", found.id, stuck.attempts, stuck.reason)
