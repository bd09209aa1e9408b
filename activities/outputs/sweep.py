"""The sweep: deletes objects that are no longer needed, one page of the store per activity.

    expired outputs, unless a running task produced them or refers to them, or they are the results of a batch that
      Temporal still keeps: a resume builds on them
    parts that no manifest names, of tasks that have ended (a killed writer leaves them)
    incomplete files of killed writes, on disk
    tombstones after 30 days
    payloads of workflows that Temporal no longer keeps
    conversations whose session has ended

Objects younger than the grace period stay: a manifest may still be about to name them.

Running tasks and the outputs they refer to, as recorded in Temporal; the sweep keeps those outputs.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ApplicationError

from outlast.activities.failures.exceptions import OutputDamaged
from outlast.activities.heartbeat import activity_scope
from outlast.activities.object_store import OutputObjects, StoredObject, parse_payload_key, payloads_prefix
from outlast.activities.outputs.contracts import SweepInput, SweepReport
from outlast.activities.outputs.output_format import REFERENCES_ATTRIBUTE, OutputManifest, parse_manifest, reference_to
from outlast.activities.outputs.reader import remove_output
from outlast.activities.workflow_requests import described

_AT_ONCE = 16
_PER_QUERY = 50
_REFERENCES = SearchAttributeKey.for_keyword_list(REFERENCES_ATTRIBUTE)


class TemporalTasks:
    """The state of tasks. Every method raises `RPCError` when Temporal does not respond: then nothing may be removed.
    Whether a workflow has ended comes from the workflow itself, since visibility lags behind.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.namespace = client.namespace

    async def running(self, task_ids: Collection[str]) -> set[str]:
        """Return the tasks whose workflow has not ended."""
        statuses = await self._statuses(task_ids)
        return {task_id for task_id, status in statuses.items() if status is WorkflowExecutionStatus.RUNNING}

    async def known(self, workflow_ids: Collection[str]) -> set[str]:
        """Return the workflows whose history Temporal still keeps."""
        statuses = await self._statuses(workflow_ids)
        return {workflow_id for workflow_id, status in statuses.items() if status is not None}

    async def referred_to(self, locators: Collection[str]) -> set[str]:
        """Return the locators that occur in the arguments of a running task."""
        by_reference = {reference_to(locator): locator for locator in locators}
        ordered = sorted(by_reference)
        found: set[str] = set()
        for start in range(0, len(ordered), _PER_QUERY):
            quoted = ", ".join(f'"{reference}"' for reference in ordered[start : start + _PER_QUERY])
            query = f'{REFERENCES_ATTRIBUTE} IN ({quoted}) AND ExecutionStatus = "Running"'
            async for execution in self._client.list_workflows(query):
                found.update(execution.typed_search_attributes.get(_REFERENCES) or ())
        return {locator for reference, locator in by_reference.items() if reference in found}

    async def _statuses(self, workflow_ids: Collection[str]) -> dict[str, WorkflowExecutionStatus | None]:
        ordered = sorted(workflow_ids)
        found: dict[str, WorkflowExecutionStatus | None] = {}
        for start in range(0, len(ordered), _AT_ONCE):
            batch = ordered[start : start + _AT_ONCE]
            found.update(zip(batch, await asyncio.gather(*(self._status(one) for one in batch)), strict=True))
        return found

    async def _status(self, workflow_id: str) -> WorkflowExecutionStatus | None:
        """Return the workflow's status, None if it does not exist."""
        description = await described(self._client, workflow_id)
        return None if description is None else description.status


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


DAMAGED_KEPT = timedelta(days=30)
"""The time that an unreadable manifest is kept. While it exists, no part of its scope counts as an orphan."""
LONGEST_TASK = timedelta(days=31)
"""Age at which parts whose key does not contain their task are swept: a task's deadline is at most 30 days."""

_READS_AT_ONCE = 16


@dataclass
class Tally:
    """The counts of one page, in objects."""

    scanned: int = 0
    deleted: int = 0
    freed_bytes: int = 0

    def report(self, cursor: str | None) -> SweepReport:
        """Return the result of the activity."""
        return SweepReport(scanned=self.scanned, deleted=self.deleted, freed_bytes=self.freed_bytes, cursor=cursor)


class SweptPages(Protocol):
    """Something else in the store that is swept page by page."""

    async def page(self, after: str, page_size: int) -> tuple[Tally, str | None]:
        """Sweep what comes after the name `after`; gives the counts, and the last name unless it was the end."""
        ...


class Ownership(Protocol):
    """Knows whose outputs are in the store."""

    async def require(self) -> None:
        """Raise `RuntimeError` if the objects do not belong to the tasks of this namespace."""


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
        """Sweep `objects`, except those that `tasks` reports as in use and those younger than `grace`. `conversations`
        comes last, page by page. `ownership` is checked before each page.
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
                    folder = cursor.removeprefix(_CONVERSATIONS)
                    tally, folder = await self._conversations.page(folder, request.page_size)
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
            # Listed again: a new start of this workflow may have written its payloads since.
            prefix = payloads_prefix(self._tasks.namespace, workflow_id)
            now_there = [entry async for entry in self._objects.list(prefix)]
            if all(entry.modified_at <= quiet_since for entry in now_there):
                await delete_counted(self._objects, tally, now_there)
        return tally.report(_CONVERSATIONS if self._conversations is not None else None)


def count_sweep(report: SweepReport) -> None:
    """Count the objects that one page of a sweep examined and deleted, and the bytes it freed."""
    meter = activity.metric_meter()
    objects = meter.create_counter(
        "outlast_swept_objects", "Objects that sweeps of the output store examined or deleted."
    )
    objects.add(report.scanned, {"event": "scanned"})
    objects.add(report.deleted, {"event": "deleted"})
    freed = meter.create_counter("outlast_swept_bytes", "Bytes that sweeps of the output store freed.", "bytes")
    freed.add(report.freed_bytes)


@dataclass
class _Manifests:
    """The manifests of one scope by key, and the listing from which they were read."""

    entries: dict[str, StoredObject] = field(default_factory=dict[str, StoredObject])
    read: dict[str, OutputManifest] = field(default_factory=dict[str, OutputManifest])
    damaged: list[str] = field(default_factory=list[str])

    @property
    def named_parts(self) -> set[str]:
        return {part.key for manifest in self.read.values() for part in manifest.parts}


class ScopeSweep:
    """Sweeps one scope after the other, and counts."""

    def __init__(self, objects: OutputObjects, tasks: TemporalTasks, *, grace: timedelta) -> None:
        """Sweep `objects`, except those that `tasks` reports as in use, and parts younger than `grace`."""
        self._objects = objects
        self._tasks = tasks
        self._grace = grace
        self.tally = Tally()

    async def sweep(self, scope: str) -> None:
        """Sweep one scope. Raises `RPCError` when Temporal does not respond, and the errors of the store."""
        now = datetime.now(UTC)
        uploads = await self._uploads(scope)
        manifests = await self._manifests(scope)
        self.tally.scanned += len(manifests.entries)
        over = {key: manifest for key, manifest in manifests.read.items() if manifest.expires_at <= now}
        owners = Counter(part.key for manifest in manifests.read.values() for part in manifest.parts)
        removed: set[str] = set()
        for key in await self._removable(over):
            removed |= await self._remove_expired(key, manifests, owners)
        too_old = [key for key in manifests.damaged if manifests.entries[key].modified_at < now - DAMAGED_KEPT]
        await delete_counted(self._objects, self.tally, [manifests.entries[key] for key in too_old])
        if not manifests.damaged:
            left = {upload: [part for part in parts if part.key not in removed] for upload, parts in uploads.items()}
            await self._remove_orphans(scope, left, manifests)

    async def _removable(self, expired: Mapping[str, OutputManifest]) -> list[str]:
        """The keys of the expired manifests that no running task needs, nor a batch that can still be resumed."""
        running = await self._tasks.running({manifest.task_id for manifest in expired.values()})
        growing = {manifest.task_id for manifest in expired.values() if manifest.series is not None}
        needed = running | await self._tasks.known(growing)
        free = {key: manifest for key, manifest in expired.items() if manifest.task_id not in needed}
        in_use = await self._tasks.referred_to({manifest.locator for manifest in free.values()})
        return [key for key, manifest in free.items() if manifest.locator not in in_use]

    async def _remove_expired(self, key: str, manifests: _Manifests, owners: Counter[str]) -> set[str]:
        """Remove an expired output. Returns the parts that were deleted; parts that another output shares stay."""
        manifest = manifests.read[key]
        if await self._read_manifest(key) != manifest:
            return set()  # Stored again since, by a retry of the same call.
        own = tuple(part for part in manifest.parts if owners[part.key] == 1)
        owners.subtract(part.key for part in manifest.parts)
        alone = manifest.model_copy(update={"parts": own})
        await remove_output(self._objects, alone, reason="expired", at=manifest.expires_at)
        self.tally.deleted += 1 + len(own)
        self.tally.freed_bytes += manifests.entries[key].size + sum(part.size for part in own)
        del manifests.read[key]
        return {part.key for part in own}

    async def _uploads(self, scope: str) -> dict[str, list[StoredObject]]:
        """Return the parts of the scope by the upload that wrote them."""
        uploads: dict[str, list[StoredObject]] = defaultdict(list)
        async for entry in self._objects.list(f"parts/{scope}"):
            uploads[entry.key.split("/")[2]].append(entry)
            self.tally.scanned += 1
        return uploads

    async def _remove_orphans(
        self, scope: str, uploads: Mapping[str, Collection[StoredObject]], manifests: _Manifests
    ) -> None:
        """Delete parts that no manifest names, of tasks that have ended. The manifests are read again after the tasks'
        state, so that one that a task wrote last is seen.
        """
        suspects = self._suspects(uploads, manifests.named_parts)
        running = await self._tasks.running({_task_of(upload) for upload in suspects})
        left = {upload: parts for upload, parts in suspects.items() if _task_of(upload) not in running}
        if not left:
            return
        latest = await self._manifests(scope, known=manifests)
        if latest.damaged:
            return
        named = latest.named_parts
        for parts in left.values():
            await delete_counted(self._objects, self.tally, [part for part in parts if part.key not in named])

    def _suspects(
        self, uploads: Mapping[str, Collection[StoredObject]], named: Collection[str]
    ) -> dict[str, list[StoredObject]]:
        """Return the parts that no manifest names, of uploads without new parts during the grace period."""
        now = datetime.now(UTC)
        suspects: dict[str, list[StoredObject]] = {}
        for upload, parts in uploads.items():
            grace = max(self._grace, LONGEST_TASK) if _is_anonymous(upload) else self._grace
            unnamed = [part for part in parts if part.key not in named]
            if unnamed and max(part.modified_at for part in parts) <= now - grace:
                suspects[upload] = unnamed
        return suspects

    async def _manifests(self, scope: str, known: _Manifests | None = None) -> _Manifests:
        """Return all manifests of a scope; unchanged ones of `known` are not read again."""
        found = _Manifests({entry.key: entry async for entry in self._objects.list(f"manifests/{scope}")})
        if known is not None:
            unchanged = {key for key, entry in known.entries.items() if found.entries.get(key) == entry}
            found.read.update({key: manifest for key, manifest in known.read.items() if key in unchanged})
        unread = [key for key in found.entries if key not in found.read]
        for start in range(0, len(unread), _READS_AT_ONCE):
            batch = unread[start : start + _READS_AT_ONCE]
            read = await asyncio.gather(*(self._read_manifest(key) for key in batch), return_exceptions=True)
            for key, manifest in zip(batch, read, strict=True):
                match manifest:
                    case OutputManifest():
                        found.read[key] = manifest
                    case OutputDamaged():
                        found.damaged.append(key)
                    case BaseException():
                        raise manifest
                    case None:
                        pass  # Removed since it was listed.
        return found

    async def _read_manifest(self, key: str) -> OutputManifest | None:
        text = await self._objects.get(key)
        return parse_manifest(text) if text is not None else None


async def delete_counted(objects: OutputObjects, tally: Tally, entries: Iterable[StoredObject]) -> None:
    """Delete objects one by one, and count each."""
    for entry in entries:
        await objects.delete([entry.key])
        tally.deleted += 1
        tally.freed_bytes += entry.size


def _task_of(upload: str) -> str:
    return upload.rpartition(".")[0]


def _is_anonymous(upload: str) -> bool:
    """Return True if the upload's name has a digest instead of the task's id (`manifest.upload_name`)."""
    return _task_of(upload).startswith("task-") and len(_task_of(upload)) == len("task-") + 32
