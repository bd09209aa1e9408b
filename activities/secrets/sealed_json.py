"""Secret values inside a JSON document: the API seals them in place, an activity opens them.

A sealed value has the form `{"$sealed": {"key_id": ..., "ciphertext": ...}}`.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import JsonValue, SecretStr, TypeAdapter, ValidationError

from outlast.activities.contracts import SealedSecret
from outlast.activities.inputs.kept_marks import hides_secret
from outlast.activities.secrets.sealer import SealError, SecretSealer

_MARK = "$sealed"
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def seal_value(value: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """The sealed form of `value`, which may enter a history."""
    sealed = sealer.seal(SecretStr(json.dumps(value)), purpose=_input_purpose(purpose))
    return {_MARK: sealed.model_dump(mode="json")}


def open_values(document: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """`document` with every sealed value opened. Raises `SealError` for one sealed for another purpose."""
    if isinstance(document, list):
        return [open_values(part, sealer, purpose=purpose) for part in document]
    if not isinstance(document, dict):
        return document
    if set(document) == {_MARK}:
        return _open_value(cast(object, document[_MARK]), sealer, _input_purpose(purpose))
    return {key: open_values(part, sealer, purpose=purpose) for key, part in document.items()}


def _open_value(sealed: object, sealer: SecretSealer, purpose: str) -> JsonValue:
    try:
        secret = SealedSecret.model_validate(sealed)
    except ValidationError:
        # A caller can write `$sealed` too: that is an invalid input, and a retry does not help.
        raise SealError("A `$sealed` value in the input was not sealed by this server.") from None
    return _JSON.validate_json(sealer.open(secret, purpose=purpose).get_secret_value())


def _input_purpose(purpose: str) -> str:
    """The purpose of input values: a token or payment of the same caller must not open as an input value."""
    return f"input:{purpose}"


MASK = "[secret]"
"""The text that replaces a sealed value where people read a document; `unmasked` turns it back."""


def is_sealed(value: Mapping[Any, Any]) -> bool:
    """Whether `value` has the form of a sealed value."""
    return set(value) == {_MARK}


def masked(document: JsonValue) -> JsonValue:
    """`document` with `MASK` instead of every sealed value."""
    if isinstance(document, list):
        return [masked(part) for part in document]
    if not isinstance(document, dict):
        return document
    if is_sealed(document) or hides_secret(document):
        return MASK
    return {key: masked(part) for key, part in document.items()}


def places_of_masks(document: JsonValue, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """The paths in `document` whose value is the text `MASK`."""
    if isinstance(document, dict):
        return {place for key, part in document.items() for place in places_of_masks(part, (*at, key))}
    if isinstance(document, list):
        return {place for number, part in enumerate(document) for place in places_of_masks(part, (*at, number))}
    return {at} if document == MASK else set()


def unmasked(edited: JsonValue, original: JsonValue) -> JsonValue:
    """`edited` with the sealed values of `original` at the places where both documents show `MASK`."""
    if edited == MASK:
        return original if masked(original) == MASK else edited
    if isinstance(edited, dict):
        own = original if isinstance(original, dict) else {}
        return {key: unmasked(part, own.get(key)) for key, part in edited.items()}
    if isinstance(edited, list):
        kept = original if isinstance(original, list) else []
        return [unmasked(part, kept[place] if place < len(kept) else None) for place, part in enumerate(edited)]
    return edited
