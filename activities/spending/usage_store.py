"""Usage records in the output store: they outlive the histories of the tasks that they are about.

    usage/<namespace>/<caller>/<day>/<number>.<digest>.jsonl     records that were settled on that day, one per line

A bundle is written once, whole. Records may stand in two bundles, when a ledger stored them again after a time-out:
readers count an entry once.
"""

import asyncio
import hashlib
from collections import defaultdict
from contextlib import suppress
from datetime import date
from typing import NamedTuple

from pydantic import ValidationError

from outlast.activities.failures.output_errors import ObjectUnavailable, OutputDamaged
from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.outputs.manifest import scope_of
from outlast.activities.spending.contracts import KeepUsageInput, UsageRecord, day_of
from outlast.fingerprints import as_folder

_READS_AT_ONCE = 16


class UsageStore:
    """Writes and reads usage records. Raises what `OutputObjects` raises."""

    def __init__(self, objects: OutputObjects, *, namespace: str) -> None:
        self._objects = objects
        self._root = f"usage/{as_folder(namespace)}"

    async def keep(self, bundle: KeepUsageInput) -> None:
        """Write a bundle: one object for each day in it. Written again, it replaces itself."""
        days: defaultdict[date, list[UsageRecord]] = defaultdict(list)
        for record in bundle.records:
            days[day_of(record.at)].append(record)
        for day, records in days.items():
            lines = "".join(f"{record.model_dump_json(exclude_none=True)}\n" for record in records).encode()
            name = f"{bundle.number:08d}.{_digest(lines)}.jsonl"
            await self._objects.put(f"{self._folder(bundle.caller_id)}/{day.isoformat()}/{name}", lines)

    async def read(self, caller_id: str, first: date, last: date) -> "StoredUsage":
        """Return a caller's records of the days from `first` to `last`, both included, and how many cannot be read."""
        folder = self._folder(caller_id)
        days = [day for day in await self._objects.folders(folder) if first.isoformat() <= day <= last.isoformat()]
        keys = [entry.key for day in days for entry in [e async for e in self._objects.list(f"{folder}/{day}")]]
        records: list[UsageRecord] = []
        damaged = 0
        for start in range(0, len(keys), _READS_AT_ONCE):
            for found in await asyncio.gather(*map(self._bundle, keys[start : start + _READS_AT_ONCE])):
                records += found.records
                damaged += found.damaged
        return StoredUsage(records, damaged)

    async def _bundle(self, key: str) -> "StoredUsage":
        try:
            text = await self._objects.get(key)
        except (OutputDamaged, ObjectUnavailable):
            return StoredUsage([], 1)
        if text is None:
            return StoredUsage([], 0)
        found = _parsed(text)
        # Whole lines may be missing: the name has a digest of all.
        is_whole = key.endswith(f".{_digest(text)}.jsonl")
        return found if is_whole else found._replace(damaged=max(1, found.damaged))

    def _folder(self, caller_id: str) -> str:
        return f"{self._root}/{scope_of(caller_id)}"


def _digest(lines: bytes) -> str:
    return hashlib.sha256(lines).hexdigest()[:16]


class StoredUsage(NamedTuple):
    """Records of usage, and how many more there are that cannot be read: a sum must not leave them out in silence."""

    records: list[UsageRecord]
    damaged: int


def _parsed(text: bytes) -> StoredUsage:
    """Return the records of a bundle, and the number of its lines that are damaged."""
    records: list[UsageRecord] = []
    lines = [line for line in text.splitlines() if line]
    for line in lines:
        with suppress(ValidationError):
            records.append(UsageRecord.model_validate_json(line))
    return StoredUsage(records, len(lines) - len(records))
