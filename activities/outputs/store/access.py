"""Opens outputs by their locator. All readers go through `open_output`."""

from datetime import UTC, datetime
from typing import Literal

from pydantic import ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.outputs.format.errors import OutputDamaged, OutputError
from outlast.activities.outputs.format.locators import Locator, parse_locator
from outlast.activities.outputs.format.manifest import OutputManifest, parse_manifest
from outlast.activities.outputs.store.object_store import OutputObjects
from outlast.activities.outputs.store.reader import OutputReader
from outlast.activities.outputs.store.room import Room


class Tombstone(Contract):
    """The tombstone of a removed output."""

    reason: Literal["expired", "deleted"]
    at: datetime


def manifest_key(locator: Locator) -> str:
    """The key of an output's manifest."""
    return f"manifests/{locator.scope}/{locator.name}.json"


def tombstone_key(locator: Locator) -> str:
    """The key of a removed output's tombstone."""
    return f"tombstones/{locator.scope}/{locator.name}.json"


async def open_output(
    objects: OutputObjects, locator: str, caller_id: str, now: datetime | None = None, room: Room | None = None
) -> OutputReader:
    """A reader of the output with this locator, for its owner; with `room`, for one who may be slow.

    Raises `OutputError`: malformed, foreign, unknown, expired, deleted or damaged. The reader raises it too when stored
    bytes were changed.
    """
    found = parse_locator(locator, caller_id=caller_id)
    manifest = await load_manifest(objects, found)
    if manifest is None:
        raise await _explain_missing_output(objects, found)
    if manifest.expires_at <= (now or datetime.now(UTC)):
        raise _removed("expired", manifest.expires_at)
    return OutputReader(objects, manifest, room)


async def load_manifest(objects: OutputObjects, locator: Locator) -> OutputManifest | None:
    """The manifest of a locator, expired or not; None when there is none. Raises `OutputDamaged`."""
    text = await objects.get(manifest_key(locator))
    if text is None:
        return None
    manifest = parse_manifest(text)
    if manifest.locator != str(locator):
        raise OutputDamaged("Its manifest belongs to another output.")
    return manifest


async def _explain_missing_output(objects: OutputObjects, locator: Locator) -> OutputError:
    text = await objects.get(tombstone_key(locator))
    if text is None:
        return OutputError("unknown", "There is no such output.")
    try:
        tombstone = Tombstone.model_validate_json(text)
    except ValidationError:
        return OutputDamaged("It was removed, and its tombstone cannot be read.")
    return _removed(tombstone.reason, tombstone.at)


def _removed(reason: Literal["expired", "deleted"], at: datetime) -> OutputError:
    what = "has expired" if reason == "expired" else "was deleted"
    return OutputError(reason, f"This output {what} on {at.astimezone(UTC):%Y-%m-%d at %H:%M} UTC.")
