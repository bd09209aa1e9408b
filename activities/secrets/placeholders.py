"""Placeholders in JSON documents, for secrets and for large parts of inputs.

    {"$sealed": {"key_id": ..., "ciphertext": ...}}                          a secret, encrypted
    {"$kept": {"sha256": ..., "size_bytes": 7800000, "begin": "[{},{},..."}}  a large part, stored

The API encrypts secrets in place and activities decrypt them. Large parts are in the object store, so that workflow
code decodes a placeholder instead of millions of values. See docs/decisions/0014-opaque-inputs.md.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import Field, JsonValue, SecretStr, TypeAdapter, ValidationError

from outlast.activities.contracts import Contract, Digest, SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets.encryption import SecretSealer

_KEPT = "$kept"
_SEALED = "$sealed"
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_BEGIN_CHARS = 200
MASK = "[secret]"
"""The text that replaces an encrypted value where people read a document; `unmasked` turns it back."""


class KeptPart(Contract):
    """The JSON text that a mark replaces."""

    sha256: Digest
    size_bytes: int = Field(ge=0)
    begin: str = Field(default="", description="How the text begins, for people; empty for a secret.")
    secret: bool = Field(default=False, description="Whether the part is an encrypted secret.")

    @property
    def as_mark(self) -> dict[str, JsonValue]:
        """The mark, as a document holds it."""
        return {_KEPT: self.model_dump(mode="json")}

    @classmethod
    def of(cls, text: bytes, digest: str, *, secret: bool) -> "KeptPart":
        """Return the description of a JSON text with the SHA-256 `digest`."""
        begin = "" if secret else text[:_BEGIN_CHARS].decode(errors="ignore")
        return cls(sha256=digest, size_bytes=len(text), begin=begin, secret=secret)


def is_mark(value: object) -> bool:
    """Return True if `value` has the form of a mark."""
    return isinstance(value, dict) and set(value) == {_KEPT}  # pyright: ignore[reportUnknownArgumentType]


def hides_secret(value: Mapping[Any, Any]) -> bool:
    """Return True if `value` is the mark of an encrypted secret."""
    part = part_of(value)
    return part is not None and part.secret


def part_of(value: object) -> KeptPart | None:
    """Return the part that the mark `value` replaces; None for any other value, also for a mark not made here."""
    if not is_mark(value):
        return None
    try:
        return KeptPart.model_validate(value[_KEPT])  # type: ignore[index]  # pyright: ignore[reportIndexIssue, reportUnknownArgumentType]
    except ValidationError:
        return None


def seal_value(value: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """Return the encrypted form of `value`, which may enter a history."""
    sealed = sealer.seal(SecretStr(json.dumps(value)), purpose=_input_purpose(purpose))
    return {_SEALED: sealed.model_dump(mode="json")}


def open_values(document: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """`document` with every encrypted value opened. Raises `SealError` for one encrypted for another purpose."""
    if isinstance(document, list):
        return [open_values(part, sealer, purpose=purpose) for part in document]
    if not isinstance(document, dict):
        return document
    if set(document) == {_SEALED}:
        return _open_value(cast(object, document[_SEALED]), sealer, _input_purpose(purpose))
    return {key: open_values(part, sealer, purpose=purpose) for key, part in document.items()}


def _open_value(sealed: object, sealer: SecretSealer, purpose: str) -> JsonValue:
    try:
        secret = SealedSecret.model_validate(sealed)
    except ValidationError:
        # A caller can write `$sealed` too: that is an invalid input, and a retry does not help.
        raise SealError("A `$sealed` value in the input was not sealed by this server.") from None
    return _JSON.validate_json(sealer.open(secret, purpose=purpose).get_secret_value())


def _input_purpose(purpose: str) -> str:
    """Return the purpose of input values: a token or payment of the same caller must not open as an input value."""
    return f"input:{purpose}"


def is_sealed(value: Mapping[Any, Any]) -> bool:
    """Return True if `value` has the form of an encrypted value."""
    return set(value) == {_SEALED}


def masked(document: JsonValue) -> JsonValue:
    """`document` with `MASK` instead of every encrypted value."""
    if isinstance(document, list):
        return [masked(part) for part in document]
    if not isinstance(document, dict):
        return document
    if is_sealed(document) or hides_secret(document):
        return MASK
    return {key: masked(part) for key, part in document.items()}


def places_of_masks(document: JsonValue, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Return the paths in `document` whose value is the text `MASK`."""
    if isinstance(document, dict):
        return {place for key, part in document.items() for place in places_of_masks(part, (*at, key))}
    if isinstance(document, list):
        return {place for number, part in enumerate(document) for place in places_of_masks(part, (*at, number))}
    return {at} if document == MASK else set()


def unmasked(edited: JsonValue, original: JsonValue) -> JsonValue:
    """`edited` with the encrypted values of `original` at the places where both documents show `MASK`."""
    if edited == MASK:
        return original if masked(original) == MASK else edited
    if isinstance(edited, dict):
        own = original if isinstance(original, dict) else {}
        return {key: unmasked(part, own.get(key)) for key, part in edited.items()}
    if isinstance(edited, list):
        kept = original if isinstance(original, list) else []
        return [unmasked(part, kept[place] if place < len(kept) else None) for place, part in enumerate(edited)]
    return edited
