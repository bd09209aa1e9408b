"""Failover between workers of one machine: live workers take over the runs that dead workers followed.

Each worker has a locked file in a shared folder, the worker registry. A file without a lock belongs to a dead worker.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import AsyncActivityHandle, Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.heartbeat import HandedOver
from outlast.activities.runs.activities import RunActivities
from outlast.workflows.contracts.search_attributes import RUN_ID

_SUFFIX = ".worker"


class WorkerRegistry:
    """The workers that share a folder."""

    def __init__(self, folder: Path, identity: str) -> None:
        """Of the worker `identity`, as Temporal knows it."""
        self._folder = folder
        self._identity = identity
        self._own = folder / f"{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"

    @contextmanager
    def entered(self) -> Generator[bool]:
        """Register this worker while the block runs; False when the folder cannot be written."""
        try:
            file = self._enter()
        except OSError:
            yield False
            return
        with file:
            try:
                yield True
            finally:
                self._own.unlink(missing_ok=True)

    def _enter(self) -> TextIO:
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._own.with_suffix(".draft")
        file = draft.open("w", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(self._identity)
        file.flush()
        # It appears with its lock: nobody takes it for the entry of a dead worker.
        draft.rename(self._own)
        return file

    def dead(self) -> Sequence["DeadWorker"]:
        """The workers that have died since their entry. Each is given to one taker at a time, until it is let go."""
        found = (_dead(path) for path in sorted(self._folder.glob(f"*{_SUFFIX}")) if path != self._own)
        return [dead for dead in found if dead is not None]


def _dead(entry: Path) -> "DeadWorker | None":
    """The worker of the entry; None while it lives, somebody takes over from it, or its entry cannot be read."""
    try:
        file = entry.open("r+", encoding="utf-8", errors="replace")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return DeadWorker(file, entry)
    except OSError:
        file.close()
        return None


class DeadWorker:
    """A worker that has died. Its entry stays until it is forgotten: the worker that takes over may die, too."""

    def __init__(self, file: TextIO, entry: Path) -> None:
        """The worker of `entry`, whose lock `file` holds."""
        self.identity = file.read()
        """Its identity in Temporal."""
        self._file = file
        self._entry = entry

    def let_go(self) -> None:
        """Leave it to the next worker that looks."""
        self._file.close()

    def forget(self) -> None:
        """Remove it from the registry."""
        self._entry.unlink(missing_ok=True)
        self._file.close()


_LOOK_SECONDS = 1.0
_LOOKS = (0.0, 5.0)
"""Seconds after a death. Temporal's visibility may not know yet of a run that had just been started: look again."""
_AT_ONCE = 16
_FOLLOWS = RunActivities.wait_for_run.__name__
_FOLLOWED = f"ExecutionStatus = 'Running' AND {RUN_ID.name} IS NOT NULL"

log = logging.getLogger("outlast.worker")


@asynccontextmanager
async def taking_over(client: Client, folder: Path) -> AsyncGenerator[None]:
    """While the block runs, this worker is registered in `folder`, and takes over from workers there that died.

    Only activities that follow a run are taken from a dead worker: what acts has its own way back, which may need
    the time that has passed. A folder that cannot be written is logged; then only heartbeats notice dead workers.
    """
    registry = WorkerRegistry(folder, client.identity)
    with registry.entered() as entered:
        if not entered:
            log.warning("%s cannot be written: runs of a killed worker wait for their heartbeat time-out.", folder)
            yield
            return
        looking = asyncio.create_task(_look_forever(client, registry))
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


async def _look_forever(client: Client, registry: WorkerRegistry) -> None:
    async with asyncio.TaskGroup() as takers:
        while True:
            for dead in registry.dead():
                takers.create_task(_take_over(client, dead))
            await asyncio.sleep(_LOOK_SECONDS)


async def _take_over(client: Client, dead: DeadWorker) -> None:
    try:
        for seconds in _LOOKS:
            await asyncio.sleep(seconds)
            taken = await _hand_over_runs(client, dead.identity)
            if taken:
                log.warning(
                    "Worker %s is dead: %d runs that it followed are followed by other workers.", dead.identity, taken
                )
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
        await attempt.fail(HandedOver("The worker that followed the run is dead; another worker follows the run."))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False  # its time was over by itself, or the workflow has ended
        raise
    return True
