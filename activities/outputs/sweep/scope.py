"""The outputs of one scope: removing those whose time is over, and parts that no manifest names."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from outlast.activities.outputs.contracts import SweepReport
from outlast.activities.outputs.format.errors import OutputDamaged
from outlast.activities.outputs.format.manifest import OutputManifest, parse_manifest
from outlast.activities.outputs.store.object_store import OutputObjects, StoredObject
from outlast.activities.outputs.store.removal import remove_output
from outlast.activities.outputs.sweep.temporal_tasks import TemporalTasks

DAMAGED_KEPT = timedelta(days=30)
"""For a manifest that cannot be read: nothing of its scope is called an orphan as long as it is there."""
LONGEST_TASK = timedelta(days=31)
"""For parts whose name does not tell the task: a task's deadline is 30 days at most."""

_READS_AT_ONCE = 16


@dataclass
class Tally:
    """What a page came to, in objects."""

    scanned: int = 0
    deleted: int = 0
    freed_bytes: int = 0

    def report(self, cursor: str | None) -> SweepReport:
        """As the activity's result."""
        return SweepReport(scanned=self.scanned, deleted=self.deleted, freed_bytes=self.freed_bytes, cursor=cursor)


@dataclass
class _Manifests:
    """The manifests of one scope: by key, and the listing they were read from."""

    entries: dict[str, StoredObject] = field(default_factory=dict[str, StoredObject])
    read: dict[str, OutputManifest] = field(default_factory=dict[str, OutputManifest])
    damaged: list[str] = field(default_factory=list[str])

    @property
    def named_parts(self) -> set[str]:
        return {part.key for manifest in self.read.values() for part in manifest.parts}


class ScopeSweep:
    """Sweeps scope by scope, and counts."""

    def __init__(self, objects: OutputObjects, tasks: TemporalTasks, *, grace: timedelta) -> None:
        """Sweep `objects`; ask `tasks` what is in use; parts younger than `grace` may be about to be named."""
        self._objects = objects
        self._tasks = tasks
        self._grace = grace
        self.tally = Tally()

    async def sweep(self, scope: str) -> None:
        """Sweep one scope. Raises `RPCError` when Temporal does not answer, and what the store raises."""
        now = datetime.now(UTC)
        uploads = await self._uploads(scope)
        manifests = await self._manifests(scope)
        self.tally.scanned += len(manifests.entries)
        over = {key: manifest for key, manifest in manifests.read.items() if manifest.expires_at <= now}
        owners = Counter(part.key for manifest in manifests.read.values() for part in manifest.parts)
        gone: set[str] = set()
        for key in await self._removable(over):
            gone |= await self._remove_expired(key, manifests, owners)
        too_old = [key for key in manifests.damaged if manifests.entries[key].modified_at < now - DAMAGED_KEPT]
        await delete_counted(self._objects, self.tally, [manifests.entries[key] for key in too_old])
        if not manifests.damaged:
            left = {upload: [part for part in parts if part.key not in gone] for upload, parts in uploads.items()}
            await self._remove_orphans(scope, left, manifests)

    async def _removable(self, expired: Mapping[str, OutputManifest]) -> list[str]:
        """Keys of those that no running task needs."""
        running = await self._tasks.running({manifest.task_id for manifest in expired.values()})
        free = {key: manifest for key, manifest in expired.items() if manifest.task_id not in running}
        in_use = await self._tasks.referred_to({manifest.locator for manifest in free.values()})
        return [key for key, manifest in free.items() if manifest.locator not in in_use]

    async def _remove_expired(self, key: str, manifests: _Manifests, owners: Counter[str]) -> set[str]:
        """Gives the parts that are gone; one that another output shares stays."""
        manifest = manifests.read[key]
        if await self._read(key) != manifest:
            return set()  # Stored anew meanwhile, by another call of the same origin.
        own = tuple(part for part in manifest.parts if owners[part.key] == 1)
        owners.subtract(part.key for part in manifest.parts)
        alone = manifest.model_copy(update={"parts": own})
        await remove_output(self._objects, alone, reason="expired", at=manifest.expires_at)
        self.tally.deleted += 1 + len(own)
        self.tally.freed_bytes += manifests.entries[key].size + sum(part.size for part in own)
        del manifests.read[key]
        return {part.key for part in own}

    async def _uploads(self, scope: str) -> dict[str, list[StoredObject]]:
        """Parts by the upload that wrote them."""
        uploads: dict[str, list[StoredObject]] = defaultdict(list)
        async for entry in self._objects.list(f"parts/{scope}"):
            uploads[entry.key.split("/")[2]].append(entry)
            self.tally.scanned += 1
        return uploads

    async def _remove_orphans(
        self, scope: str, uploads: Mapping[str, Collection[StoredObject]], manifests: _Manifests
    ) -> None:
        """First their tasks are found to have ended, then the manifests are read once more: one that was written last
        of all is seen.
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
        """Parts that are not named, of uploads that have been quiet for long enough."""
        now = datetime.now(UTC)
        suspects: dict[str, list[StoredObject]] = {}
        for upload, parts in uploads.items():
            grace = max(self._grace, LONGEST_TASK) if _is_anonymous(upload) else self._grace
            unnamed = [part for part in parts if part.key not in named]
            if unnamed and max(part.modified_at for part in parts) <= now - grace:
                suspects[upload] = unnamed
        return suspects

    async def _manifests(self, scope: str, known: _Manifests | None = None) -> _Manifests:
        """All of a scope; those that `known` has, unchanged, are not read again."""
        found = _Manifests({entry.key: entry async for entry in self._objects.list(f"manifests/{scope}")})
        if known is not None:
            unchanged = {key for key, entry in known.entries.items() if found.entries.get(key) == entry}
            found.read.update({key: manifest for key, manifest in known.read.items() if key in unchanged})
        unread = [key for key in found.entries if key not in found.read]
        for start in range(0, len(unread), _READS_AT_ONCE):
            batch = unread[start : start + _READS_AT_ONCE]
            read = await asyncio.gather(*(self._read(key) for key in batch), return_exceptions=True)
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

    async def _read(self, key: str) -> OutputManifest | None:
        text = await self._objects.get(key)
        return parse_manifest(text) if text is not None else None


async def delete_counted(objects: OutputObjects, tally: Tally, entries: Iterable[StoredObject]) -> None:
    """Remove objects one by one, and count each."""
    for entry in entries:
        await objects.delete([entry.key])
        tally.deleted += 1
        tally.freed_bytes += entry.size


def _task_of(upload: str) -> str:
    return upload.rpartition(".")[0]


def _is_anonymous(upload: str) -> bool:
    """Whether a digest stands for the task's id, see `outlast.activities.outputs.format.locators.upload_name`."""
    return _task_of(upload).startswith("task-") and len(_task_of(upload)) == len("task-") + 32
