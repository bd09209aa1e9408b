"""`SavedCallStore`: saved calls in the output store, where they outlive every history.

    saved-calls/<namespace>/<caller>/<digest of the name>.json    one saved call, written whole

The sweep does not come here; what was saved stays until it is deleted. An object that cannot be read (cut, changed, or
encrypted under a key that is gone) is one damaged call among the others: it can be replaced and deleted.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic import Field, ValidationError

from outlast.activities.contracts import Contract, JsonObject
from outlast.activities.failures.output_errors import ObjectUnavailable, OutputDamaged, StoreUnavailable
from outlast.activities.object_store.objects import OutputObjects, StoredObject
from outlast.activities.outputs.manifest import scope_of
from outlast.api.errors import OutputStoreUnavailable
from outlast.fingerprints import as_folder

_READS_AT_ONCE = 16
_DAMAGED = "damaged-"
_NAME_OF_DAMAGED = re.compile(r"damaged-[0-9a-f]{32}")
_NAME_FIELD = re.compile(rb'"name":\s*("(?:[^"\\]|\\.)*")')


class KeptCall(Contract):
    """A saved call as it is kept: the secrets in it are sealed for its caller."""

    name: str
    note: str | None = None
    call: JsonObject = Field(description="As `ScheduledCall`.")
    saved_at: datetime


class DamagedCall(NamedTuple):
    """A saved call that cannot be read."""

    name: str
    """As it was saved under, where that can still be read; else `damaged-DIGEST`, which names it as well."""
    reason: str
    saved_at: datetime


class SavedCallStore:
    """Keeps the saved calls of all callers. Every method raises `OutputStoreUnavailable`."""

    def __init__(self, objects: OutputObjects, *, namespace: str) -> None:
        """Keep those of a Temporal namespace in `objects`."""
        self._objects = objects
        self._root = f"saved-calls/{as_folder(namespace)}"

    async def keep(self, caller_id: str, kept: KeptCall) -> None:
        """Write one. It takes the place of an earlier one of that name."""
        with _store_errors():
            await self._objects.put(self.key(caller_id, kept.name), kept.model_dump_json().encode())

    async def read(self, caller_id: str, name: str) -> KeptCall | DamagedCall | None:
        """One of a caller's saved calls; None when there is none of this name."""
        with _store_errors():
            found = await self._read(self.key(caller_id, name), datetime.now(UTC))
            return found or await self._damaged(caller_id, name)

    async def all(self, caller_id: str) -> list[KeptCall | DamagedCall]:
        """A caller's saved calls, by name."""
        entries = await self._entries(caller_id)
        found: list[KeptCall | DamagedCall] = []
        with _store_errors():
            for start in range(0, len(entries), _READS_AT_ONCE):
                some = entries[start : start + _READS_AT_ONCE]
                read = await asyncio.gather(*(self._read(entry.key, entry.modified_at) for entry in some))
                found += [kept for kept in read if kept is not None]
        return sorted(found, key=lambda kept: kept.name)

    async def keys(self, caller_id: str) -> set[str]:
        """The keys of those that a caller has."""
        return {entry.key for entry in await self._entries(caller_id)}

    async def delete(self, caller_id: str, name: str) -> None:
        """Delete one, if it is there."""
        with _store_errors():
            damaged = await self._damaged(caller_id, name)
            keys = [self.key(caller_id, name), *([self._key_of(caller_id, _alias(name))] if damaged else [])]
            await self._objects.delete(keys)

    async def _damaged(self, caller_id: str, name: str) -> DamagedCall | None:
        """The damaged call that `name` is the substitute name of."""
        digest = _alias(name)
        found = await self._read(self._key_of(caller_id, digest), datetime.now(UTC)) if digest else None
        return found if isinstance(found, DamagedCall) else None

    async def _entries(self, caller_id: str) -> list[StoredObject]:
        with _store_errors():
            return [entry async for entry in self._objects.list(self._folder(caller_id))]

    async def _read(self, key: str, modified_at: datetime) -> KeptCall | DamagedCall | None:
        digest = key.rpartition("/")[2].removesuffix(".json")
        try:
            content = await self._objects.get(key)
        except ObjectUnavailable as error:
            return DamagedCall(f"{_DAMAGED}{digest}", str(error), modified_at)
        except OutputDamaged as error:
            return DamagedCall(f"{_DAMAGED}{digest}", error.problem, modified_at)
        if content is None:
            return None
        try:
            kept = KeptCall.model_validate_json(content)
            if _digest(kept.name) == digest:
                return kept
            # Its file was copied or renamed: run under this name, it would be another call than was saved as such.
            return DamagedCall(f"{_DAMAGED}{digest}", f"It holds the saved call {kept.name!r} instead.", modified_at)
        except ValidationError:
            name = _name_in(content, digest) or f"{_DAMAGED}{digest}"
            return DamagedCall(name, "What is stored of it is cut or was changed.", modified_at)

    def _folder(self, caller_id: str) -> str:
        return f"{self._root}/{scope_of(caller_id)}"

    def key(self, caller_id: str, name: str) -> str:
        """The key under which a saved call is kept."""
        return self._key_of(caller_id, _digest(name))

    def _key_of(self, caller_id: str, digest: str) -> str:
        return f"{self._folder(caller_id)}/{digest}.json"


def _alias(name: str) -> str:
    """The digest in the substitute name of a damaged call; empty for another name."""
    return name.removeprefix(_DAMAGED) if _NAME_OF_DAMAGED.fullmatch(name) else ""


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _name_in(content: bytes, digest: str) -> str | None:
    """The name in an object that cannot be read as a whole, if the object is the one of that name."""
    found = _NAME_FIELD.search(content)
    try:
        name = json.loads(found[1]) if found else None
    except ValueError:
        return None
    return name if isinstance(name, str) and _digest(name) == digest else None


@contextmanager
def _store_errors() -> Generator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise OutputStoreUnavailable("The store that keeps saved calls does not answer. Repeat the request.") from error
