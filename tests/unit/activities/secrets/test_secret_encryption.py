"""Authenticated encryption of secrets: only the same key ring and purpose open them."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from outlast.activities.contracts import SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import SecretSealer

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
PLAIN = SecretStr("apify_api_plainTextOfTheSecret")


def entry(key_id: str, key: bytes) -> str:
    return f"{key_id}:{base64.b64encode(key).decode()}"


@given(st.text(), st.text())
def test_what_was_sealed_opens_for_the_same_purpose(secret: str, purpose: str) -> None:
    sealer = SecretSealer({"k": OLD})
    sealed = sealer.seal(SecretStr(secret), purpose=purpose)
    assert sealer.open(sealed, purpose=purpose).get_secret_value() == secret


def test_a_sealed_secret_shows_nothing_of_it() -> None:
    sealed = SecretSealer({"k": OLD}).seal(PLAIN, purpose="alice")
    raw = base64.b64decode(sealed.ciphertext)
    assert PLAIN.get_secret_value() not in sealed.model_dump_json()
    assert b"apify_api" not in raw


def test_the_same_secret_is_sealed_differently_each_time() -> None:
    sealer = SecretSealer({"k": OLD})
    assert sealer.seal(PLAIN, purpose="alice") != sealer.seal(PLAIN, purpose="alice")


def test_a_secret_does_not_open_for_another_purpose() -> None:
    sealer = SecretSealer({"k": OLD})
    with pytest.raises(SealError, match="encrypted for another caller"):
        sealer.open(sealer.seal(PLAIN, purpose="alice"), purpose="bob")


@given(st.data())
def test_any_changed_bit_is_noticed(data: st.DataObject) -> None:
    sealer = SecretSealer({"k": OLD})
    sealed = sealer.seal(PLAIN, purpose="alice")
    raw = bytearray(base64.b64decode(sealed.ciphertext))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << (bit % 8)
    changed = SealedSecret(key_id=sealed.key_id, ciphertext=base64.b64encode(raw).decode())
    with pytest.raises(SealError):
        sealer.open(changed, purpose="alice")


@pytest.mark.parametrize("ciphertext", ["", "AAAA", "no base64!", base64.b64encode(b"x" * 12).decode()])
def test_what_is_no_ciphertext_is_refused(ciphertext: str) -> None:
    with pytest.raises(SealError):
        SecretSealer({"k": OLD}).open(SealedSecret(key_id="k", ciphertext=ciphertext), purpose="alice")


def test_after_a_rotation_the_old_key_still_opens_and_the_new_one_seals() -> None:
    sealed_before = SecretSealer({"old": OLD}).seal(PLAIN, purpose="alice")
    rotated = SecretSealer.from_text(f"{entry('new', NEW)},{entry('old', OLD)}")
    assert rotated.open(sealed_before, purpose="alice") == PLAIN
    assert rotated.seal(PLAIN, purpose="alice").key_id == "new"


def test_a_key_rotated_out_too_early_is_named() -> None:
    sealed = SecretSealer({"old": OLD}).seal(PLAIN, purpose="alice")
    with pytest.raises(SealError, match="'old' is not in the ring"):
        SecretSealer({"new": NEW}).open(sealed, purpose="alice")


def test_a_ring_is_read_from_a_file_with_comments(tmp_path: Path) -> None:
    file = tmp_path / "seal.keys"
    file.write_text(f"# newest first\n{entry('new', NEW)}\n\n{entry('old', OLD)}\n")
    sealed = SecretSealer.from_file(file).seal(PLAIN, purpose="p")
    assert SecretSealer({"new": NEW}).open(sealed, purpose="p") == PLAIN


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "No sealing key"),
        ("k:not base64!", "'k' is not base64"),
        (entry("k", b"short"), "'k' has 5 bytes"),
        (base64.b64encode(OLD).decode(), "must read `KEYID:base64"),
    ],
)
def test_a_bad_ring_is_refused_without_quoting_a_key(text: str, complaint: str) -> None:
    with pytest.raises(SealError, match=complaint) as caught:
        SecretSealer.from_text(text)
    assert base64.b64encode(OLD).decode() not in str(caught.value)


def test_a_ring_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SealError, match=r"seal\.keys: No such file"):
        SecretSealer.from_file(tmp_path / "seal.keys")


def test_digests_from_before_a_rotation_are_among_those_after_it() -> None:
    """So a repeated idempotency key still matches its task, and a repeated schedule its first request."""
    value = ["call-actor", {"input": {"token": "s3cret"}}]
    (before,) = SecretSealer.from_text(entry("old", OLD)).digests(value)
    rotated = SecretSealer.from_text(f"{entry('new', NEW)},{entry('old', OLD)}").digests(value)
    (after,) = SecretSealer.from_text(entry("new", NEW)).digests(value)
    assert rotated == (after, before)
    assert before != after
