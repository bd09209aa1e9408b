"""The object store behind outputs: a folder, S3, GCS or Azure, through obstore.

    parts/<scope>/<upload>/00000.zst     frames, written as they come in
    manifests/<scope>/<name>.json        written last, in one step: what can be found is whole
    tombstones/<scope>/<name>.json       why an output is gone
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import obstore
from obstore.exceptions import NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url
from pydantic import ValidationError

from activities.models import Contract
from activities.output_store.frames import OutputDamaged
from activities.output_store.locators import Locator
from activities.output_store.manifest import OutputManifest

_LIST_CHUNK = 500


class OutputUnknown(Exception):
    """There is no such output, and no trace of one."""


class OutputGone(Exception):
    """The output was removed; `reason` says why."""

    def __init__(self, reason: Literal["expired", "deleted"], at: datetime) -> None:
        """Carry why and when."""
        super().__init__(f"This output {'has expired' if reason == 'expired' else 'was deleted'} ({at:%Y-%m-%d %H:%M} UTC).")
        self.reason = reason
        self.at = at


class Tombstone(Contract):
    """What is left of a removed output."""

    reason: Literal["expired", "deleted"]
    at: datetime


@dataclass(frozen=True)
class StoredObject:
    """An object as a listing shows it."""

    key: str
    size: int
    modified_at: datetime


class OutputObjects:
    """Objects by key. Every method raises what obstore raises when the store does not answer."""

    def __init__(self, store: ObjectStore) -> None:
        """Keep objects in `store`."""
        self._store = store

    @classmethod
    def open(cls, url: str) -> "OutputObjects":
        """A store by URL: `s3://bucket/prefix`, `gs://…`, `az://…`, `file:///folder`, or the path of a folder."""
        if "://" not in url:
            return cls(LocalStore(Path(url).resolve(), mkdir=True))
        return cls(from_url(url))

    async def put(self, key: str, data: bytes) -> None:
        """Write an object in one step: a reader sees the old one or the new one."""
        await obstore.put_async(self._store, key, data)

    async def get(self, key: str) -> bytes | None:
        """A whole object, or None when there is none."""
        try:
            result = await obstore.get_async(self._store, key)
        except (NotFoundError, FileNotFoundError):
            return None
        return bytes(await result.bytes_async())

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end` (exclusive). Raises `OutputDamaged` when the object is gone or too short."""
        try:
            data = bytes(await obstore.get_range_async(self._store, key, start=start, end=end))
        except (NotFoundError, FileNotFoundError) as error:
            raise OutputDamaged("A part of this output is missing.") from error
        if len(data) != end - start:
            raise OutputDamaged("A part of this output is shorter than it was.")
        return data

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; one that is gone already is no error."""
        for key in keys:
            try:
                await obstore.delete_async(self._store, key)
            except (NotFoundError, FileNotFoundError):
                continue

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        """Objects whose keys begin with `prefix`, in pages."""
        async for chunk in obstore.list(self._store, prefix, chunk_size=_LIST_CHUNK):
            for entry in chunk:
                yield StoredObject(entry["path"], entry["size"], entry["last_modified"])


def part_key(scope: str, upload: str, number: int) -> str:
    """Where a part is."""
    return f"{parts_prefix(scope, upload)}/{number:05d}.zst"


def parts_prefix(scope: str, upload: str) -> str:
    """Where the parts of one upload are."""
    return f"parts/{scope}/{upload}"


def manifest_key(locator: Locator) -> str:
    """Where an output's manifest is."""
    return f"manifests/{locator.scope}/{locator.name}.json"


def tombstone_key(locator: Locator) -> str:
    """Where a removed output's tombstone is."""
    return f"tombstones/{locator.scope}/{locator.name}.json"


async def load_manifest(objects: OutputObjects, locator: Locator, *, now: datetime) -> OutputManifest:
    """The manifest behind a locator. Raises `OutputGone`, `OutputUnknown` or `OutputDamaged`."""
    text = await objects.get(manifest_key(locator))
    if text is None:
        await _raise_gone(objects, locator)
    try:
        manifest = OutputManifest.model_validate_json(text or b"")
    except ValidationError as error:
        raise OutputDamaged("The output's own index cannot be read.") from error
    if manifest.expires_at <= now:
        raise OutputGone("expired", manifest.expires_at)
    return manifest


async def _raise_gone(objects: OutputObjects, locator: Locator) -> None:
    tombstone = await objects.get(tombstone_key(locator))
    if tombstone is None:
        raise OutputUnknown("There is no such output.")
    found = Tombstone.model_validate_json(tombstone)
    raise OutputGone(found.reason, found.at)
