"""Removal of conversations: by the sweep, or by their owner. A tombstone records why a session is gone. The sweep
deletes tombstones after 30 days, with those of outputs.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import ValidationError

from outlast.activities.conversations.blocks import ConversationBlocks, conversations_prefix, owner_of
from outlast.activities.conversations.contracts import ConversationOwner
from outlast.activities.object_store.objects import OutputObjects, StoredObject
from outlast.activities.outputs.manifest import scope_of
from outlast.activities.outputs.reader import Tombstone
from outlast.activities.outputs.sweep import Tally, delete_counted
from outlast.activities.outputs.temporal_tasks import TemporalTasks

Reason = Literal["expired", "deleted"]


async def remove_conversation(
    objects: OutputObjects, blocks: ConversationBlocks, owner: ConversationOwner, *, reason: Reason
) -> None:
    """Remove all that a session has kept. The tombstone is written first: a reader in between learns the reason."""
    await leave_tombstone(objects, blocks.namespace, owner, reason)
    await blocks.remove(owner)


async def leave_tombstone(objects: OutputObjects, namespace: str, owner: ConversationOwner, reason: Reason) -> None:
    """Write why a session's conversation is gone."""
    tombstone = Tombstone(reason=reason, at=datetime.now(UTC))
    await objects.put(_tombstone_key(namespace, owner), tombstone.model_dump_json().encode())


async def why_removed(objects: OutputObjects, namespace: str, owner: ConversationOwner) -> Reason | None:
    """Return the reason why a session's conversation was removed; None if it was not, or too long ago."""
    text = await objects.get(_tombstone_key(namespace, owner))
    if text is None:
        return None
    try:
        return Tombstone.model_validate_json(text).reason
    except ValidationError:
        return "expired"


def _tombstone_key(namespace: str, owner: ConversationOwner) -> str:
    name = hashlib.sha256(f"{namespace}\n{owner.workflow_id}".encode()).hexdigest()[:32]
    return f"tombstones/{scope_of(owner.caller_id)}/session-{name}.json"


_OWNER_LINE_BYTES = 8_192


class ConversationSweep:
    """Removes what no session needs. Objects younger than the grace period stay: their session may just begin."""

    def __init__(
        self, objects: OutputObjects, blocks: ConversationBlocks, tasks: TemporalTasks, *, grace: timedelta
    ) -> None:
        self._objects = objects
        self._blocks = blocks
        self._tasks = tasks
        self._grace = grace

    async def page(self, after: str, page_size: int) -> tuple[Tally, str | None]:
        """Sweep the shards after one of them until `page_size` objects were seen; the shard to continue from. A shard
        is swept as a whole: each is listed once in a sweep, and there are 256 of them at most.
        """
        tally = Tally()
        root = conversations_prefix(self._blocks.namespace)
        shards = [shard for shard in await self._objects.folders(root) if shard > after]
        for shard in shards:
            for folder in await self._objects.folders(f"{root}/{shard}"):
                await self._sweep(f"{root}/{shard}/{folder}", tally)
            if tally.scanned >= page_size and shard != shards[-1]:
                return tally, shard
        return tally, None

    async def _sweep(self, prefix: str, tally: Tally) -> None:
        entries = await self._listed(prefix)
        tally.scanned += len(entries)
        if not entries or not self._all_quiet(entries):
            return
        first = entries[0]
        owner = owner_of(await self._objects.get_range(first.key, 0, min(first.size, _OWNER_LINE_BYTES)))
        if owner is None or await self._tasks.running({owner.workflow_id}):
            return
        # Listed again: a session with this id may have been started since.
        entries = await self._listed(prefix)
        if self._all_quiet(entries):
            await leave_tombstone(self._objects, self._blocks.namespace, owner, "expired")
            await delete_counted(self._objects, tally, entries)

    async def _listed(self, prefix: str) -> list[StoredObject]:
        return [entry async for entry in self._objects.list(prefix)]

    def _all_quiet(self, entries: list[StoredObject]) -> bool:
        quiet_since = datetime.now(UTC) - self._grace
        return all(entry.modified_at <= quiet_since for entry in entries)
