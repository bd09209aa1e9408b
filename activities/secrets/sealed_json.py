"""Secret values inside a JSON document: sealed in place on the way in, opened in place inside an activity.

A sealed value stands as `{"$sealed": {"key_id": ..., "ciphertext": ...}}`.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import JsonValue, SecretStr, TypeAdapter, ValidationError

from outlast.activities.contracts import SealedSecret
from outlast.activities.secrets.sealer import SealError, SecretSealer

_MARK = "$sealed"
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def seal_value(value: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """`value` as it may stand in a history."""
    sealed = sealer.seal(SecretStr(json.dumps(value)), purpose=_of_inputs(purpose))
    return {_MARK: sealed.model_dump(mode="json")}


def open_values(document: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """`document` with every sealed value opened. Raises `SealError` for one sealed for another purpose."""
    if isinstance(document, list):
        return [open_values(part, sealer, purpose=purpose) for part in document]
    if not isinstance(document, dict):
        return document
    if set(document) == {_MARK}:
        return _opened(cast(object, document[_MARK]), sealer, _of_inputs(purpose))
    return {key: open_values(part, sealer, purpose=purpose) for key, part in document.items()}


def _opened(sealed: object, sealer: SecretSealer, purpose: str) -> JsonValue:
    try:
        secret = SealedSecret.model_validate(sealed)
    except ValidationError:
        # A caller may write the mark too; that is a wrong input, which no retry mends.
        raise SealError("A `$sealed` value in the input is not one that this server has sealed.") from None
    return _JSON.validate_json(sealer.open(secret, purpose=purpose).get_secret_value())


def _of_inputs(purpose: str) -> str:
    """A token or payment sealed for the same caller must not open as a value of an input."""
    return f"input:{purpose}"


MASK = "[secret]"
"""What stands for a sealed value where people read a document, and where they write it back unchanged."""


def is_sealed(value: Mapping[Any, Any]) -> bool:
    """Whether `value` is the form of a sealed value."""
    return set(value) == {_MARK}


def masked(document: JsonValue) -> JsonValue:
    """`document` with `MASK` in the place of every sealed value."""
    if isinstance(document, list):
        return [masked(part) for part in document]
    if not isinstance(document, dict):
        return document
    return MASK if is_sealed(document) else {key: masked(part) for key, part in document.items()}


def places_of_masks(document: JsonValue, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Where in `document` the text `MASK` stands."""
    if isinstance(document, dict):
        return {place for key, part in document.items() for place in places_of_masks(part, (*at, key))}
    if isinstance(document, list):
        return {place for number, part in enumerate(document) for place in places_of_masks(part, (*at, number))}
    return {at} if document == MASK else set()


def unmasked(edited: JsonValue, original: JsonValue) -> JsonValue:
    """`edited` with the sealed value of `original` wherever `MASK` stands in the place of one."""
    if edited == MASK:
        return original if masked(original) == MASK else edited
    if isinstance(edited, dict):
        own = original if isinstance(original, dict) else {}
        return {key: unmasked(part, own.get(key)) for key, part in edited.items()}
    if isinstance(edited, list):
        kept = original if isinstance(original, list) else []
        return [unmasked(part, kept[place] if place < len(kept) else None) for place, part in enumerate(edited)]
    return edited
