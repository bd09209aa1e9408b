"""Secret values inside a JSON document: sealed in place on the way in, opened in place inside an activity.

A sealed value stands as `{"$sealed": {"key_id": ..., "ciphertext": ...}}`.
"""

import json
from typing import cast

from pydantic import JsonValue, SecretStr, TypeAdapter

from activities.models import SealedSecret
from activities.secrets import SecretSealer

_MARK = "$sealed"
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def seal_value(value: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """`value` as it may stand in a history."""
    sealed = sealer.seal(SecretStr(json.dumps(value)), purpose=purpose)
    return {_MARK: sealed.model_dump(mode="json")}


def open_values(document: JsonValue, sealer: SecretSealer, *, purpose: str) -> JsonValue:
    """`document` with every sealed value opened. Raises `SealError` for one sealed for another purpose."""
    if isinstance(document, list):
        return [open_values(part, sealer, purpose=purpose) for part in document]
    if not isinstance(document, dict):
        return document
    if set(document) == {_MARK}:
        sealed = SealedSecret.model_validate(cast(object, document[_MARK]))
        return _JSON.validate_json(sealer.open(sealed, purpose=purpose).get_secret_value())
    return {key: open_values(part, sealer, purpose=purpose) for key, part in document.items()}
