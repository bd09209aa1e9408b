"""How many bytes of stored outputs each caller has. They are counted beside the requests, never for each of them."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from cachetools import LRUCache

from outlast.activities.outputs.format.locators import scope_of
from outlast.activities.outputs.store.object_store import OutputObjects
from outlast.api.access.limits.token_bucket import Clock
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import StorageFull
from outlast.api.metrics import LIMITED

_MAX_CALLERS = 10_000
_KEPT_SECONDS = 5.0
_KEPT_PER_SECOND = 50.0
"""A count is kept for so many times as long as it took, and for five seconds at least: the store has other work."""
_FULL_KEPT_SECONDS = 5.0
"""A count by which a call would be refused is kept for less: its caller may have deleted outputs."""

_COUNT_SECONDS = 3.0
"""A call that would be refused waits so long for a new count."""

log = logging.getLogger("outlast.api")


@dataclass
class _Stored:
    size_bytes: int = 0
    fresh_until: float = float("-inf")
    counted_at: float = float("-inf")
    counting: asyncio.Task[None] | None = None


class StoredBytes:
    """Refuses calls of callers whose outputs take more space than they may."""

    def __init__(self, objects: OutputObjects, policy: PolicySource, clock: Clock = time.monotonic) -> None:
        """Count in `objects`; apply the limits of the `policy` in force."""
        self._objects = objects
        self._policy = policy
        self._clock = clock
        self._callers: LRUCache[str, _Stored] = LRUCache(_MAX_CALLERS)
        self._one_at_a_time = asyncio.Lock()

    async def check(self, caller_id: str) -> None:
        """Raise `StorageFull` when the caller's outputs were too large when last counted."""
        stored = self._callers.get(caller_id)
        if stored is None:
            stored = self._callers[caller_id] = _Stored()
        most = self._policy.of(caller_id).limits.stored_bytes
        is_full = stored.size_bytes > most
        if self._clock() >= (stored.counted_at + _FULL_KEPT_SECONDS if is_full else stored.fresh_until):
            counting = self._count_soon(caller_id, stored)
            if is_full:
                await asyncio.wait({counting}, timeout=_COUNT_SECONDS)
        if stored.size_bytes > most:
            LIMITED.labels("stored_bytes").inc()
            raise StorageFull(
                f"Your stored outputs take {stored.size_bytes:,} bytes, and may take {most:,} (`stored_bytes` in the "
                "operator's policy). Nothing was started: delete outputs that you do not need "
                "(`DELETE /v1/outputs/{locator}`, `outlast output rm`) or sessions with theirs, or wait until "
                "some expire. Removed ones count until the next sweep."
            )

    def used(self) -> Mapping[str, Mapping[str, float]]:
        """For each caller, the part of its limit that is in use, as last counted."""
        return {
            caller_id: {
                "stored_bytes": min(1.0, stored.size_bytes / max(1, self._policy.of(caller_id).limits.stored_bytes))
            }
            for caller_id, stored in self._callers.items()
        }

    def _count_soon(self, caller_id: str, stored: _Stored) -> asyncio.Task[None]:
        if stored.counting is None or stored.counting.done():
            stored.counting = asyncio.create_task(self._count(caller_id, stored))
        return stored.counting

    async def _count(self, caller_id: str, stored: _Stored) -> None:
        async with self._one_at_a_time:
            began, size = self._clock(), 0
            try:
                for folder in ("parts", "manifests"):
                    async for entry in self._objects.list(f"{folder}/{scope_of(caller_id)}"):
                        size += entry.size
            except OSError as error:
                log.warning("The stored outputs of %s cannot be counted: %s", caller_id, error)
            else:
                stored.size_bytes = size
            stored.counted_at = self._clock()
            taken = stored.counted_at - began
            stored.fresh_until = stored.counted_at + max(_KEPT_SECONDS, _KEPT_PER_SECOND * taken)
