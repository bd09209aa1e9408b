"""Removes outputs. A removed output leaves a tombstone, so that its locator still says why it was removed."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

from outlast.activities.outputs.format.errors import OutputDamaged
from outlast.activities.outputs.format.locators import parse_locator
from outlast.activities.outputs.format.manifest import OutputManifest
from outlast.activities.outputs.store.access import Tombstone, manifest_key, open_output, tombstone_key
from outlast.activities.outputs.store.object_store import OutputObjects


async def remove_output(
    objects: OutputObjects, manifest: OutputManifest, *, reason: Literal["expired", "deleted"], at: datetime
) -> int:
    """Remove an output and leave its tombstone. Returns the number of bytes freed.

    The tombstone is written first and the parts are deleted last: a reader in between, or after a crash in between,
    gets the reason. The sweep deletes parts that no manifest names.
    """
    locator = parse_locator(manifest.locator, caller_id=manifest.caller_id)
    tombstone = Tombstone(reason=reason, at=at)
    await objects.put(tombstone_key(locator), tombstone.model_dump_json().encode())
    await objects.delete([manifest_key(locator)])
    await objects.delete([part.key for part in manifest.parts])
    return manifest.stored_size


async def delete_output(objects: OutputObjects, locator: str, caller_id: str) -> None:
    """Delete an output for its owner, also a damaged one. Raises `OutputError` as `open_output` does.

    It cannot be read any more. The next sweep deletes its parts, unless another output (of a repeated attempt) shares
    them.
    """
    found = parse_locator(locator, caller_id=caller_id)
    with suppress(OutputDamaged):
        await open_output(objects, locator, caller_id)
    tombstone = Tombstone(reason="deleted", at=datetime.now(UTC))
    await objects.put(tombstone_key(found), tombstone.model_dump_json().encode())
    await objects.delete([manifest_key(found)])
