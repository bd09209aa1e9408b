"""Removing an output, so that its locator says from then on why it is gone."""

from datetime import UTC, datetime
from typing import Literal

from outlast.activities.outputs.format.locators import parse_locator
from outlast.activities.outputs.format.manifest import OutputManifest
from outlast.activities.outputs.store.access import Tombstone, manifest_key, open_output, tombstone_key
from outlast.activities.outputs.store.object_store import OutputObjects


async def remove_output(
    objects: OutputObjects, manifest: OutputManifest, *, reason: Literal["expired", "deleted"], at: datetime
) -> int:
    """Remove an output and leave its tombstone. Gives the bytes that were freed.

    The tombstone comes first and the parts go last: whoever asks in between, or after a crash in between, is told why
    the output is gone; parts that nothing names any more are what the sweep removes.
    """
    locator = parse_locator(manifest.locator, caller_id=manifest.caller_id)
    tombstone = Tombstone(reason=reason, at=at)
    await objects.put(tombstone_key(locator), tombstone.model_dump_json().encode())
    await objects.delete([manifest_key(locator)])
    await objects.delete([part.key for part in manifest.parts])
    return manifest.stored_size


async def delete_output(objects: OutputObjects, locator: str, caller_id: str) -> None:
    """Remove an output at its owner's word. Raises `OutputError` as `open_output` does.

    It cannot be read from now on. Its parts go with the next sweep, which knows whether another output, of a repeated
    attempt, has some of them too.
    """
    reader = await open_output(objects, locator, caller_id)
    found = parse_locator(reader.manifest.locator, caller_id=caller_id)
    tombstone = Tombstone(reason="deleted", at=datetime.now(UTC))
    await objects.put(tombstone_key(found), tombstone.model_dump_json().encode())
    await objects.delete([manifest_key(found)])
