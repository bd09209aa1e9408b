"""`SavedCallStore`: saved calls in the output store, where they outlive every history.

    saved-calls/<namespace>/<caller>/<digest of the name>.json    one saved call, written whole

The sweep does not come here; what was saved stays until it is deleted.
"""

import asyncio
import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

from pydantic import Field, ValidationError

from outlast.activities.contracts import Contract, JsonObject
from outlast.activities.outputs.format.errors import StoreUnavailable
from outlast.activities.outputs.format.locators import scope_of
from outlast.activities.outputs.store.object_store import OutputObjects
from outlast.api.errors import OutputStoreUnavailable
from outlast.fingerprints import as_folder

_READS_AT_ONCE = 16


class KeptCall(Contract):
    """A saved call as it is kept: the secrets in it are sealed for its caller."""

    name: str
    note: str | None = None
    call: JsonObject = Field(description="As `ScheduledCall`.")
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
            await self._objects.put(self._key(caller_id, kept.name), kept.model_dump_json().encode())

    async def read(self, caller_id: str, name: str) -> KeptCall | None:
        """One of a caller's saved calls; None when there is none of this name."""
        with _store_errors():
            content = await self._objects.get(self._key(caller_id, name))
        return _parsed(content) if content is not None else None

    async def all(self, caller_id: str) -> list[KeptCall]:
        """A caller's saved calls, by name."""
        keys = await self._keys(caller_id)
        found: list[KeptCall] = []
        with _store_errors():
            for start in range(0, len(keys), _READS_AT_ONCE):
                contents = await asyncio.gather(*map(self._objects.get, keys[start : start + _READS_AT_ONCE]))
                found += [_parsed(content) for content in contents if content is not None]
        return sorted(found, key=lambda kept: kept.name)

    async def count(self, caller_id: str) -> int:
        """How many a caller has."""
        return len(await self._keys(caller_id))

    async def delete(self, caller_id: str, name: str) -> None:
        """Delete one, if it is there."""
        with _store_errors():
            await self._objects.delete([self._key(caller_id, name)])

    async def _keys(self, caller_id: str) -> list[str]:
        with _store_errors():
            return [entry.key async for entry in self._objects.list(self._folder(caller_id))]

    def _folder(self, caller_id: str) -> str:
        return f"{self._root}/{scope_of(caller_id)}"

    def _key(self, caller_id: str, name: str) -> str:
        return f"{self._folder(caller_id)}/{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"


def _parsed(content: bytes) -> KeptCall:
    try:
        return KeptCall.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(f"A saved call in the store is damaged ({error.error_count()} errors).") from error


@contextmanager
def _store_errors() -> Generator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise OutputStoreUnavailable("The store that keeps saved calls does not answer. Repeat the request.") from error
