"""Payloads in histories stay readable when the ring of keys is rotated, and when encryption is turned on or off."""

import itertools
from collections.abc import Mapping

import pytest
from temporalio.api.common.v1 import Payload

from outlast.activities.secrets import (
    MAX_KEY_ID_BYTES,
    ContentCipher,
    ContentDamaged,
    ContentKeyMissing,
)
from outlast.worker.payloads import EncryptingCodec

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
JSON = {"encoding": b"json/plain"}
SMALL = Payload(metadata=JSON, data=b'"the secret word"')
LARGE = Payload(metadata=JSON, data=b'"' + b"the secret word " * 32_000 + b'"')


def codec(ring: Mapping[str, bytes], *, encrypts: bool = True) -> EncryptingCodec:
    """A codec whose first key encrypts."""
    return EncryptingCodec(ContentCipher(ring), encrypts=encrypts)


BEFORE, ROTATED, AFTER = codec({"old": OLD}), codec({"new": NEW, "old": OLD}), codec({"new": NEW})


@pytest.mark.parametrize("payload", [SMALL, LARGE], ids=["small", "large"])
async def test_a_rotated_ring_reads_what_both_keys_wrote_and_writes_with_the_first(payload: Payload) -> None:
    old, new = await BEFORE.encode([payload]), await ROTATED.encode([payload])
    assert await ROTATED.decode([*old, *new]) == [payload, payload]
    assert await AFTER.decode(new) == [payload]
    with pytest.raises(ContentKeyMissing, match="'old'"):
        await AFTER.decode(old)
    with pytest.raises(ContentKeyMissing, match="'new'"):
        await BEFORE.decode(new)


@pytest.mark.parametrize("ring", [*itertools.permutations("abc")], ids="".join)
async def test_any_key_of_a_ring_reads_wherever_it_stands(ring: tuple[str, ...]) -> None:
    keys = {name: name.encode() * 32 for name in ring}
    for name, key in keys.items():
        written = await codec({name: key}).encode([SMALL])
        assert await codec(keys).decode(written) == [SMALL]


@pytest.mark.parametrize("payload", [SMALL, LARGE], ids=["small", "large"])
async def test_an_encrypted_payload_shows_nothing_but_the_id_of_its_key(payload: Payload) -> None:
    [written] = await ROTATED.encode([payload])
    assert b"secret" not in written.SerializeToString()
    assert dict(written.metadata) == {"encoding": b"binary/encrypted", "encryption-key-id": b"new"}


async def test_a_ring_that_only_reads_leaves_payloads_plain_and_opens_encrypted_ones() -> None:
    reads = codec({"new": NEW, "old": OLD}, encrypts=False)
    assert await reads.encode([SMALL]) == [SMALL]
    written = await BEFORE.encode([SMALL])
    assert await reads.decode([SMALL, *written, LARGE]) == [SMALL, SMALL, LARGE]


async def test_a_large_payload_is_encrypted_to_the_same_bytes_again_and_a_small_one_is_not() -> None:
    """Large ones are stored under the name of their content, where a replay has to find them again."""
    assert await BEFORE.encode([LARGE]) == await BEFORE.encode([LARGE])
    assert await BEFORE.encode([LARGE]) != await ROTATED.encode([LARGE])
    assert await BEFORE.encode([SMALL]) != await BEFORE.encode([SMALL])


async def test_a_changed_payload_and_one_under_another_keys_name_do_not_open() -> None:
    [written] = await BEFORE.encode([SMALL])
    changed = Payload(metadata=written.metadata, data=written.data[:-1] + bytes([written.data[-1] ^ 1]))
    renamed = Payload(metadata={**written.metadata, "encryption-key-id": b"new"}, data=written.data)
    for wrong in (changed, renamed, Payload(metadata=written.metadata, data=b"")):
        with pytest.raises(ContentDamaged):
            await ROTATED.decode([wrong])


def test_content_opens_for_the_same_tenant_and_place_only() -> None:
    cipher = ContentCipher({"k": OLD})
    sealed = cipher.encrypt(b"content", tenant="ann", bound_to=b"here")
    assert cipher.decrypt("k", sealed, tenant="ann", bound_to=b"here") == b"content"
    for tenant, place in (("bob", b"here"), ("ann", b"there")):
        with pytest.raises(ContentDamaged):
            cipher.decrypt("k", sealed, tenant=tenant, bound_to=place)


def test_an_id_of_a_key_fits_into_the_header_of_an_object() -> None:
    assert ContentCipher({"k" * MAX_KEY_ID_BYTES: OLD}).key_id == "k" * MAX_KEY_ID_BYTES
    with pytest.raises(ValueError, match="at most 40 bytes"):
        ContentCipher({"k" * (MAX_KEY_ID_BYTES + 1): OLD})
