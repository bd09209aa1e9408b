"""The sweep: deletes objects that are no longer needed, one page of the store per activity.

    expired outputs, unless a running task produced them or refers to them, or they are the results of a batch that
      Temporal still keeps: a resume builds on them
    parts that no manifest names, of tasks that have ended (a killed writer leaves them)
    incomplete files of killed writes, on disk
    tombstones after 30 days
    payloads of workflows that Temporal no longer keeps
    conversations whose session has ended

Objects younger than the grace period stay: a manifest may still be about to name them.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Protocol

from temporalio import activity
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from outlast.activities.heartbeat import activity_scope
from outlast.activities.outputs.contracts import SweepInput, SweepReport
from outlast.activities.outputs.format.payload_keys import parse_payload_key, payloads_prefix
from outlast.activities.outputs.store.object_store import OutputObjects, StoredObject
from outlast.activities.outputs.sweep.metrics import count_sweep
from outlast.activities.outputs.sweep.scope import ScopeSweep, Tally, delete_counted
from outlast.activities.outputs.sweep.temporal_tasks import TemporalTasks

SWEEP_ATTEMPT_TIMEOUT = timedelta(hours=1)
SWEEP_HEARTBEAT_TIMEOUT = timedelta(seconds=30)
SWEEP_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1), maximum_attempts=10
)

TOMBSTONES_KEPT = timedelta(days=30)

_SCOPE = "scope:"
_LEFTOVERS = "leftovers"
_PAYLOADS = "payloads"
_CONVERSATIONS = "conversations:"


class SweptPages(Protocol):
    """Something else in the store that is swept page by page."""

    async def page(self, after: str, page_size: int) -> tuple[Tally, str | None]:
        """Sweep what comes after the name `after`; gives the counts, and the last name unless it was the end."""
        ...


class Ownership(Protocol):
    """Knows whose outputs are in the store."""

    async def require(self) -> None:
        """Raise `RuntimeError` when they are not those of the tasks that the sweep knows."""
        ...


class OutputSweepActivities:
    """Deletes objects that are no longer needed. A sweep that is killed is completed by the next one."""

    def __init__(
        self,
        objects: OutputObjects,
        tasks: TemporalTasks,
        *,
        grace: timedelta,
        conversations: SweptPages | None = None,
        ownership: Ownership | None = None,
    ) -> None:
        """Sweep `objects`, except those that `tasks` reports as in use and those younger than `grace`.

        `conversations` comes last, page by page. `ownership` is asked before each page.
        """
        self._ownership = ownership
        self._conversations = conversations
        self._objects = objects
        self._tasks = tasks
        self._grace = grace

    @activity.defn
    async def sweep_page(self, request: SweepInput) -> SweepReport:
        """Sweep from the cursor on, one whole scope after the other, until `page_size` objects were examined."""
        async with activity_scope():
            await self._require_own_store()
            match request.cursor:
                case None:
                    report = await self._sweep_scopes("", request.page_size)
                case str(cursor) if cursor.startswith(_SCOPE):
                    report = await self._sweep_scopes(cursor.removeprefix(_SCOPE), request.page_size)
                case str(cursor) if cursor == _LEFTOVERS:
                    report = await self._sweep_leftovers()
                case str(cursor) if cursor.startswith(_CONVERSATIONS) and self._conversations is not None:
                    tally, folder = await self._conversations.page(
                        cursor.removeprefix(_CONVERSATIONS), request.page_size
                    )
                    report = tally.report(None if folder is None else _CONVERSATIONS + folder)
                case _:
                    report = await self._sweep_payloads()
            count_sweep(report)
            return report

    async def _require_own_store(self) -> None:
        """Every output looks left over beside a database that has never known its task."""
        try:
            if self._ownership is not None:
                await self._ownership.require()
        except RuntimeError as error:
            raise ApplicationError(str(error), type="StoreOfAnotherDatabase", non_retryable=True) from error

    async def _sweep_scopes(self, after: str, page_size: int) -> SweepReport:
        sweep = ScopeSweep(self._objects, self._tasks, grace=self._grace)
        scopes = {*await self._objects.folders("manifests"), *await self._objects.folders("parts")}
        for scope in sorted(scope for scope in scopes if scope > after):
            await sweep.sweep(scope)
            if sweep.tally.scanned >= page_size:
                return sweep.tally.report(_SCOPE + scope)
        return sweep.tally.report(_LEFTOVERS)

    async def _sweep_leftovers(self) -> SweepReport:
        tally = Tally()
        now = datetime.now(UTC)
        staged = await self._objects.staged_leftovers()
        tally.scanned += len(staged)
        old = [entry for entry in staged if entry.modified_at <= now - self._grace]
        async for entry in self._objects.list("tombstones"):
            tally.scanned += 1
            if entry.modified_at <= now - TOMBSTONES_KEPT:
                old.append(entry)
        await delete_counted(self._objects, tally, old)
        return tally.report(_PAYLOADS)

    async def _sweep_payloads(self) -> SweepReport:
        tally = Tally()
        quiet_since = datetime.now(UTC) - self._grace
        stored: dict[str, list[StoredObject]] = defaultdict(list)
        async for entry in self._objects.list(payloads_prefix(self._tasks.namespace)):
            tally.scanned += 1
            payload = parse_payload_key(entry.key)
            if payload is not None:
                stored[payload.workflow_id].append(entry)
        quiet = {one for one, entries in stored.items() if all(entry.modified_at <= quiet_since for entry in entries)}
        for workflow_id in sorted(quiet - await self._tasks.known(quiet)):
            # Listed again: a new start of this workflow may have written its payloads meanwhile.
            now_there = [
                entry async for entry in self._objects.list(payloads_prefix(self._tasks.namespace, workflow_id))
            ]
            if all(entry.modified_at <= quiet_since for entry in now_there):
                await delete_counted(self._objects, tally, now_there)
        return tally.report(_CONVERSATIONS if self._conversations is not None else None)
