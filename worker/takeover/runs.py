"""Hands the runs that dead workers followed to those that live."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import AsyncActivityHandle, Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.heartbeat import HandedOver
from outlast.activities.runs.activities import RunActivities
from outlast.worker.takeover.roll import DeadWorker, Roll
from outlast.workflows.contracts.search_attributes import RUN_ID

_LOOK_SECONDS = 1.0
_LOOKS = (0.0, 5.0)
"""Seconds after a death. Temporal's visibility may not know yet of a run that had just been started: look again."""
_AT_ONCE = 16
_FOLLOWS = RunActivities.wait_for_run.__name__
_FOLLOWED = f"ExecutionStatus = 'Running' AND {RUN_ID.name} IS NOT NULL"

log = logging.getLogger("outlast.worker")


@asynccontextmanager
async def taking_over(client: Client, folder: Path) -> AsyncGenerator[None]:
    """While the block runs, this worker is on the roll in `folder`, and looks after those there that have died.

    Only activities that follow a run are taken from a dead worker: what acts has its own way back, which may need
    the time that has passed. A folder that cannot be written is logged; then only heartbeats notice dead workers.
    """
    roll = Roll(folder, client.identity)
    with roll.entered() as entered:
        if not entered:
            log.warning("%s cannot be written: runs of a killed worker wait for their heartbeat time-out.", folder)
            yield
            return
        looking = asyncio.create_task(_look_forever(client, roll))
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


async def _look_forever(client: Client, roll: Roll) -> None:
    async with asyncio.TaskGroup() as takers:
        while True:
            for dead in roll.dead():
                takers.create_task(_take_over(client, dead))
            await asyncio.sleep(_LOOK_SECONDS)


async def _take_over(client: Client, dead: DeadWorker) -> None:
    try:
        for seconds in _LOOKS:
            await asyncio.sleep(seconds)
            taken = await _hand_over_runs(client, dead.identity)
            if taken:
                log.warning("Worker %s is dead: %d runs that it followed are followed on.", dead.identity, taken)
        dead.forget()
    except* RPCError as errors:
        log.warning("Cannot take over yet from the dead worker %s: %s", dead.identity, errors.exceptions[0])
    finally:
        dead.let_go()


async def _hand_over_runs(client: Client, identity: str) -> int:
    """Have the runs that this worker followed followed by others. Returns how many there were. Raises `RPCError`."""
    gate = asyncio.Semaphore(_AT_ONCE)
    taken = 0

    async def look(execution: WorkflowExecution) -> None:
        nonlocal taken
        try:
            async for attempt in _attempts_of(client, execution, identity):
                taken += await _ended(attempt)
        finally:
            gate.release()

    async with asyncio.TaskGroup() as group:
        async for execution in client.list_workflows(_FOLLOWED):
            # The next page is read when this one has been looked at, however many runs there are.
            await gate.acquire()
            group.create_task(look(execution))
    return taken


async def _attempts_of(
    client: Client, execution: WorkflowExecution, identity: str
) -> AsyncIterator[AsyncActivityHandle]:
    """The attempts in which this worker follows runs of the workflow."""
    try:
        found = await client.get_workflow_handle(execution.id, run_id=execution.run_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return
        raise
    for pending in found.raw_description.pending_activities:
        started = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        if started and pending.activity_type.name == _FOLLOWS and pending.last_worker_identity == identity:
            yield client.get_async_activity_handle(
                workflow_id=execution.id, run_id=execution.run_id, activity_id=pending.activity_id
            )


async def _ended(attempt: AsyncActivityHandle) -> bool:
    """End the dead worker's attempt, so that the next one begins at once. Its heartbeats' details go with it."""
    try:
        await attempt.fail(HandedOver("The worker that followed the run is dead; another one goes on with it."))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False  # its time was over by itself, or the workflow has ended
        raise
    return True
