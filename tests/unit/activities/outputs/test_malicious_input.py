"""Malicious locators, stored bytes and expressions are refused with a reason."""

import asyncio
import functools
import hashlib
import json
import struct
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.activities.failures.exceptions import OutputDamaged, OutputError
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import RestoreOutputInput
from outlast.activities.outputs.output_format import (
    Frame,
    OutputManifest,
    build_part,
    compress,
    decompress,
    index_frame,
    manifest_text,
    parse_locator,
    scope_of,
)
from outlast.activities.outputs.reader import Tombstone, manifest_key, open_output, tombstone_key
from outlast.activities.outputs.selection import select
from tests.support.calls.stored_outputs import CALLER, SCOPE, bytes_of, keys_of, objects_in_memory, stored

ROWS = b"".join(json.dumps({"id": number, "text": "x" * (number % 50)}).encode() + b"\n" for number in range(200))


async def refusal_of(work: Awaitable[object]) -> OutputError:
    with pytest.raises(OutputError) as refused:
        await work
    envelope = refused.value.envelope("restore-tool-output")
    assert envelope.hint
    assert not envelope.retryable
    return refused.value


@functools.cache
def stored_once() -> tuple[OutputObjects, OutputManifest]:
    """An output for many examples, each of which leaves it as it was."""
    objects = objects_in_memory()
    return objects, asyncio.run(stored(objects, ROWS))


# Locators


@pytest.mark.parametrize(
    "locator",
    [
        "",
        "out_",
        "../../etc/passwd",
        "out_../../../../manifests_x",
        "out_aaaaaaaaaaaaa_" + "a" * 32 + "_aaaaaa",
        "out_aaaaaaaaaaaaa_" + "../" * 10 + "aa_aaaaaa",
        "out_%2e%2e%2f_" + "a" * 32 + "_aaaaaa",
        "out_" + "a" * 100_000,
        "out_\x00",
    ],
)
async def test_what_is_no_locator_is_refused(locator: str) -> None:
    assert (await refusal_of(open_output(objects_in_memory(), locator, CALLER.id))).reason == "malformed"


@given(position=st.integers(0, 57), letter=st.sampled_from("abcdefghijklmnopqrstuvwxyz234567_/.\n"))
def test_a_typing_error_in_a_locator_is_no_other_output(position: int, letter: str) -> None:
    objects, manifest = stored_once()

    async def scenario() -> None:
        locator = manifest.locator
        wrong = locator[:position] + letter + locator[position + 1 :]
        if wrong != locator:
            assert (await refusal_of(open_output(objects, wrong, CALLER.id))).reason == "malformed"

    asyncio.run(scenario())


async def test_the_output_of_another_caller_is_refused() -> None:
    objects = objects_in_memory()
    manifest = await stored(objects, ROWS)
    assert (await refusal_of(open_output(objects, manifest.locator, "caller-2"))).reason == "foreign"


async def test_another_callers_objects_under_ones_own_name_are_refused() -> None:
    objects = objects_in_memory()
    theirs = await stored(objects, ROWS, scope=SCOPE.model_copy(update={"caller_id": "caller-2"}))
    mine = await stored(objects, b'{"mine":1}\n')
    await objects.put(manifest_key(parse_locator(mine.locator, caller_id=CALLER.id)), manifest_text(theirs))
    assert (await refusal_of(open_output(objects, mine.locator, CALLER.id))).reason == "damaged"


async def test_a_task_id_leads_nowhere_else() -> None:
    objects = objects_in_memory()
    scope = SCOPE.model_copy(update={"task_id": "../../tombstones/x"})
    manifest = await stored(objects, ROWS, scope=scope)
    assert all(part.key.startswith(f"parts/{scope_of(CALLER.id)}/task-") for part in manifest.parts)
    assert all(part.key.count("/") == 3 for part in manifest.parts)


async def test_unknown_expired_and_deleted_outputs_are_told_apart() -> None:
    objects = objects_in_memory()
    manifest = await stored(objects, ROWS)
    locator = parse_locator(manifest.locator, caller_id=CALLER.id)
    later = datetime.now(UTC) + timedelta(hours=25)
    assert (await refusal_of(open_output(objects, manifest.locator, CALLER.id, later))).reason == "expired"
    await objects.delete([manifest_key(locator)])
    assert (await refusal_of(open_output(objects, manifest.locator, CALLER.id))).reason == "unknown"
    for reason in ("expired", "deleted"):
        tombstone = Tombstone(reason=reason, at=datetime.now(UTC))
        await objects.put(tombstone_key(locator), tombstone.model_dump_json().encode())
        assert (await refusal_of(open_output(objects, manifest.locator, CALLER.id))).reason == reason


async def test_an_output_that_is_stored_again_is_no_longer_gone() -> None:
    objects = objects_in_memory()
    manifest = await stored(objects, ROWS)
    locator = parse_locator(manifest.locator, caller_id=CALLER.id)
    await objects.delete(await keys_of(objects))
    await objects.put(
        tombstone_key(locator), Tombstone(reason="deleted", at=datetime.now(UTC)).model_dump_json().encode()
    )
    await stored(objects, ROWS)
    assert await bytes_of(await open_output(objects, manifest.locator, CALLER.id)) == ROWS
    assert await keys_of(objects, "tombstones") == []


# Stored bytes


@given(data=st.data())
@settings(max_examples=120)
def test_a_changed_bit_is_damage_or_changes_nothing(data: Any) -> None:
    objects, manifest = stored_once()

    async def scenario() -> None:
        key = data.draw(st.sampled_from(sorted(await keys_of(objects))))
        intact = await objects.get(key) or b""
        content = bytearray(intact)
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        await objects.put(key, bytes(content))
        try:
            reader = await open_output(objects, manifest.locator, CALLER.id)
            assert reader.manifest == manifest
            assert await bytes_of(reader) == ROWS
            assert [row async for row in reader.rows()] == ROWS.splitlines()
        except OutputDamaged:
            pass
        finally:
            await objects.put(key, intact)

    asyncio.run(scenario())


@given(data=st.data())
@settings(max_examples=50)
def test_a_cut_object_is_damaged(data: Any) -> None:
    objects, manifest = stored_once()

    async def scenario() -> None:
        key = data.draw(st.sampled_from(sorted(await keys_of(objects))))
        intact = await objects.get(key) or b""
        await objects.put(key, intact[: data.draw(st.integers(0, len(intact) - 1))])
        try:
            with pytest.raises(OutputDamaged):
                await bytes_of(await open_output(objects, manifest.locator, CALLER.id))
        finally:
            await objects.put(key, intact)

    asyncio.run(scenario())


async def test_a_missing_part_is_damage() -> None:
    objects = objects_in_memory()
    manifest = await stored(objects, ROWS)
    await objects.delete([manifest.parts[3].key])
    reader = await open_output(objects, manifest.locator, CALLER.id)
    assert (await refusal_of(bytes_of(reader))).reason == "damaged"
    assert [row async for row in reader.rows(0, 1)] == ROWS.splitlines()[:1]


def bomb(declared: int) -> bytes:
    """A frame of a few kilobytes that gives a gigabyte and declares `declared` bytes."""
    compressor = zstandard.ZstdCompressor(level=1, write_content_size=False)
    stream = compressor.compressobj()
    piece = bytes(1024 * 1024)
    data = b"".join([*(stream.compress(piece) for _ in range(1024)), stream.flush()])
    # The header gets the size that it left out: an 8-byte field, where the window's descriptor stays.
    return data[:4] + bytes([data[4] | 0b1100_0000]) + data[5:6] + struct.pack("<Q", declared) + data[6:]


@pytest.mark.parametrize("declared", [1_000, 1024**3, 2**40])
def test_a_decompression_bomb_is_no_larger_than_its_index_says(declared: int) -> None:
    data = bomb(declared)
    assert len(data) < 200_000
    assert zstandard.frame_content_size(data) == declared
    with pytest.raises(OutputDamaged):
        decompress(data, raw_size=1_000, digest=hashlib.sha256(b"").digest())


def test_a_frame_without_a_size_is_refused() -> None:
    data = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 1_000)
    with pytest.raises(OutputDamaged):
        decompress(data, raw_size=1_000, digest=hashlib.sha256(b"x" * 1_000).digest())


async def test_an_index_that_promises_too_much_is_refused_before_anything_is_unpacked() -> None:
    objects = objects_in_memory()
    manifest = await stored(objects, ROWS)
    frame = Frame(bomb(2**34), 2**34, 1, hashlib.sha256(b"").digest())
    await replace_first_part(objects, manifest, build_part([frame]).data)
    reader = await open_output(objects, manifest.locator, CALLER.id)
    assert (await refusal_of(bytes_of(reader))).reason == "damaged"


async def test_an_index_whose_frames_are_the_index_again_is_refused() -> None:
    objects = objects_in_memory()
    manifest = await stored(objects, ROWS)
    frame = compress([ROWS], aligned=True)[0]
    entry = {"offset": 0, "size": 1, "raw_size": 1, "rows": 10**12, "digest": "00" * 32}
    text = json.dumps({"version": 1, "frames": [entry] * 10}).encode()
    await replace_first_part(objects, manifest, frame.compressed + index_frame(text))
    reader = await open_output(objects, manifest.locator, CALLER.id)
    assert (await refusal_of(bytes_of(reader))).reason == "damaged"


async def replace_first_part(objects: OutputObjects, manifest: OutputManifest, data: bytes) -> None:
    """As long as the part was: a longer one would be cut where the manifest says that it ends."""
    size = manifest.parts[0].size
    await objects.put(manifest.parts[0].key, bytes(max(0, size - len(data))) + data)


# Expressions

ENDLESS = "|".join(["[@,@][]"] * 60)
GROWING = "to_string(@)|" + "|".join(["join('', [@, @])"] * 40)
DEEP = "[" * 200 + "@" + "]" * 200


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (ENDLESS, "too much time or memory"),
        (DEEP, "levels of nesting"),
        ("a" * 1_001, "characters"),
        ("!" * 900 + "a", ""),
        ("foo(", "not valid JMESPath"),
        ("no_function(@)", "not valid JMESPath"),
        ("length(id) > `1`", "fails on every row"),
    ],
)
async def test_an_expression_that_cannot_be_carried_out_is_refused(expression: str, says: str) -> None:
    objects = objects_in_memory()
    reader = await open_output(objects, (await stored(objects, ROWS)).locator, CALLER.id)
    order = RestoreOutputInput(caller=CALLER, locator=reader.manifest.locator, filter=expression)
    refused = await refusal_of(select(reader, order))
    assert refused.reason == "bad_selection"
    assert says in refused.message


async def test_a_query_on_a_value_runs_in_the_same_limits() -> None:
    objects = objects_in_memory()
    manifest = await stored(objects, b'{"a":[1,2,3]}', kind="json", content_type="application/json")
    reader = await open_output(objects, manifest.locator, CALLER.id)
    order = RestoreOutputInput(caller=CALLER, locator=manifest.locator, query=GROWING)
    assert "memory" in (await refusal_of(select(reader, order))).message


async def test_other_work_goes_on_while_an_expression_runs_for_ever() -> None:
    objects = objects_in_memory()
    reader = await open_output(objects, (await stored(objects, ROWS)).locator, CALLER.id)
    endless = asyncio.create_task(
        select(reader, RestoreOutputInput(caller=CALLER, locator=reader.manifest.locator, filter=ENDLESS))
    )
    order = RestoreOutputInput(caller=CALLER, locator=reader.manifest.locator, filter="id == `7`", limit=1)
    found = await select(reader, order)
    assert found.items == ({"id": 7, "text": "x" * 7},)
    assert not endless.done()
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
