"""The data converter and the encryption of histories.

Values are JSON by pydantic, without fields that are None, and rows of answers only once. With encryption, arguments,
results, memos, signals, heartbeats, failures and summaries are encrypted before it is decided whether they are kept in
the history or in the object store. Search attributes, ids and types of workflows stay plain: Temporal works with them.
"""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_json, to_jsonable_python
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
    PayloadCodec,
)
from temporalio.exceptions import ApplicationError

from outlast.activities.bounds import reading_recorded
from outlast.activities.secrets import ContentCipher
from outlast.activities.unicode_text import valid_json
from outlast.workflows.contracts.tool_calls import ToolOutcome, ToolResult, without_repeated_rows

NOT_JSON = "not_json"
"""Type of the failure of a step whose argument or result cannot be written."""


class LeanJSONPayloadConverter(PydanticJSONPlainPayloadConverter):
    """Omits fields of models that are None, which saves a tenth of the history of an Actor call.

    None is the default of every optional field of a contract, so reading gives the same value back. Nulls inside other
    data (an Actor's input, rows) are kept.
    """

    def to_payload(self, value: Any) -> Payload | None:
        """Write `value` as JSON.

        Raises a non-retryable `ApplicationError` for a value that JSON cannot hold: Temporal would try again for ever.
        """
        try:
            data = _written(value)
        except (ValueError, TypeError, RecursionError) as error:
            message = f"A value of {type(value).__name__} cannot be written as JSON ({type(error).__name__})."
            raise ApplicationError(message, type=NOT_JSON, non_retryable=True) from None
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Read what was written before, also where there is a bound on it now."""
        with reading_recorded():
            return super().from_payload(payload, type_hint)


def _written(value: Any) -> bytes:
    document, exclude_none = _document(value)
    try:
        return to_json(document, exclude_none=exclude_none)
    except ValueError:
        # Words of a tool with half of a character: a question, a run's input, a report of progress.
        return to_json(valid_json(to_jsonable_python(document, exclude_none=exclude_none)))


def _document(value: Any) -> tuple[Any, bool]:
    """The written form of a value, and whether None fields of models are still to be removed."""
    match value:
        case ToolOutcome(result=result):
            outcome = value.model_dump(mode="json", exclude_none=True)
            return {**outcome, "result": without_repeated_rows(_dumped(result))}, False
        case ToolResult():
            return without_repeated_rows(_dumped(value)), False
        case _:
            return value, True


def _dumped(result: ToolResult) -> dict[str, Any]:
    return result.model_dump(mode="json", exclude_none=True)


_LEAN_JSON = LeanJSONPayloadConverter()
"""Shared: the SDK makes a converter per workflow and per payload, and each would inspect the contracts again."""


class PayloadUnreadable(ValueError):
    """A payload is damaged, or in a form that this version does not know."""


class LeanPayloadConverter(CompositePayloadConverter):
    """The SDK's converters, with JSON as `LeanJSONPayloadConverter` writes it."""

    def __init__(self) -> None:
        """Nothing to configure."""
        converters = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*(_LEAN_JSON if isinstance(one, JSONPlainPayloadConverter) else one for one in converters))

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """See `CompositePayloadConverter`. Raises `PayloadUnreadable`, and pydantic's error for JSON of another form.

        The SDK raises various errors for an unknown encoding, and returns bytes where a model was expected.
        """
        try:
            values = super().from_payloads(payloads, type_hints)
        except (KeyError, RuntimeError, RecursionError) as error:
            raise PayloadUnreadable("A payload cannot be read.") from error
        for value, hint in zip(values, cast("Sequence[Any]", type_hints or ()), strict=False):
            if isinstance(value, bytes) and isinstance(hint, type) and issubclass(hint, BaseModel):
                raise PayloadUnreadable(f"A payload is not a {hint.__name__}.")
        return values


lean_data_converter = dataclasses.replace(pydantic_data_converter, payload_converter_class=LeanPayloadConverter)
"""The converter of all clients, workers and replayers of Outlast."""


ENCODING = b"binary/encrypted"
"""The name in Temporal's samples, which tools recognize."""
_KEY_ID = "encryption-key-id"
_TENANT = "histories"
_BOUND_TO = b"temporal payload"
_STABLE_BYTES = 64 * 1024
"""From here on, the same payload is encrypted to the same bytes: a replay stores it under the same name again."""
_THREAD_BYTES = 256 * 1024


class EncryptingCodec(PayloadCodec):
    """Decodes what was encrypted under any key of the ring, and passes on what never was."""

    def __init__(self, cipher: ContentCipher, *, encrypts: bool) -> None:
        """With `encrypts`, what is written from now on is encrypted."""
        self._cipher = cipher
        self._encrypts = encrypts

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each."""
        return [await self._encoded(payload) for payload in payloads] if self._encrypts else list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt those that are encrypted. Raises `ContentKeyMissing` or `ContentDamaged`."""
        return [await self._decoded(payload) for payload in payloads]

    async def _encoded(self, payload: Payload) -> Payload:
        data = payload.SerializeToString()
        sealed = await asyncio.to_thread(self._seal, data) if len(data) > _THREAD_BYTES else self._seal(data)
        return Payload(metadata={"encoding": ENCODING, _KEY_ID: self._cipher.key_id.encode()}, data=sealed)

    def _seal(self, data: bytes) -> bytes:
        nonce = self._cipher.nonce_of(data, tenant=_TENANT) if len(data) >= _STABLE_BYTES else None
        return self._cipher.encrypt(data, tenant=_TENANT, bound_to=_BOUND_TO, nonce=nonce)

    async def _decoded(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        opened = (
            await asyncio.to_thread(self._open, payload) if len(payload.data) > _THREAD_BYTES else self._open(payload)
        )
        return Payload.FromString(opened)

    def _open(self, payload: Payload) -> bytes:
        key_id = payload.metadata[_KEY_ID].decode(errors="replace")
        return self._cipher.decrypt(key_id, payload.data, tenant=_TENANT, bound_to=_BOUND_TO)
