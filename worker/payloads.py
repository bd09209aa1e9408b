"""Payloads of histories: how values become JSON, are encrypted and stored, and whose each is.

The data converter and the encryption of histories.

Values are JSON by pydantic, without fields that are None, and rows of answers only once. With encryption, arguments,
results, memos, signals, heartbeats, failures and summaries are encrypted before it is decided whether they are kept in
the history or in the object store. Search attributes, ids and types of workflows stay plain: Temporal works with them.

Keeps Temporal's payloads above 256 KB in the output store; the history holds a reference to each.

    payloads/<namespace>/<workflow id>/<sha256>

The key names the workflow, so that the sweep can ask Temporal whether it still exists. The digest in the key makes a
replay, which stores everything again, write the same objects.
"""

import asyncio
import dataclasses
import hashlib
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar, cast

from google.protobuf.message import DecodeError
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json, to_jsonable_python
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    JSONPlainPayloadConverter,
    PayloadCodec,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)
from temporalio.exceptions import ApplicationError

from outlast.activities.bounds import reading_recorded
from outlast.activities.failures.exceptions import OutputDamaged
from outlast.activities.object_store import OutputObjects, StoredPayload, payload_key
from outlast.activities.secrets import ContentCipher, ContentDamaged, ContentKeyMissing
from outlast.activities.unicode_text import valid_json
from outlast.fingerprints import as_folder
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


T = TypeVar("T")

THRESHOLD_BYTES = 256 * 1024
"""Smaller payloads stay in the history."""

MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""A worker holds an argument or result in memory several times. Store larger data as an output."""

_DRIVER = "outlast"
_MAX_NAME_CHARS = 180
"""A folder's name may have 255 bytes, a whole object key 1,024."""


class PayloadLost(Exception):
    """A stored payload is missing or damaged.

    The worker retries the step: the workflow continues when the object is restored, or the worker uses the right store.
    Only an operator can decide to end the workflow instead, since its history can no longer be replayed.
    """


class PayloadUnavailable(Exception):
    """The store does not answer. Workers retry."""


UNREADABLE = (ContentDamaged, ContentKeyMissing, PayloadLost, PayloadUnreadable, ValidationError, DecodeError)
"""Exceptions for a record in Temporal that cannot be read: it is damaged, encrypted under a key that is gone, or of
another version. One such record must not keep the others of a list from being shown."""


class PayloadDriver(StorageDriver):
    """Stores payloads of workflows through obstore, and verifies the digest on every read."""

    def __init__(self, objects: OutputObjects, *, read_only: bool = False) -> None:
        """Store payloads in `objects`. With `read_only`, for replays, nothing is written."""
        self._objects = objects
        self._read_only = read_only

    def name(self) -> str:
        """The same in every process: references in histories carry it."""
        return _DRIVER

    def type(self) -> str:
        """The kind of driver, for the Temporal server's records."""
        return "outlast.obstore"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Write each payload in one step. Raises `PayloadUnavailable`, or `ApplicationError` for one too large."""
        target = context.target
        assert isinstance(target, StorageDriverWorkflowInfo), "select_driver lets no other through"
        assert target.id is not None, "select_driver lets no other through"
        return await _together([self._store(target.namespace, target.id, payload) for payload in payloads])

    async def retrieve(
        self,
        context: StorageDriverRetrieveContext,  # noqa: ARG002 (the SDK's interface)
        claims: Sequence[StorageDriverClaim],
    ) -> list[Payload]:
        """Read each payload. Raises `PayloadLost`, `PayloadUnavailable` or `ContentKeyMissing`."""
        return await _together([self._retrieve(claim) for claim in claims])

    async def _store(self, namespace: str, workflow_id: str, payload: Payload) -> StorageDriverClaim:
        data = payload.SerializeToString()
        if len(data) > MAX_PAYLOAD_BYTES:
            raise ApplicationError(
                f"An argument or result has {len(data)} bytes; the limit is {MAX_PAYLOAD_BYTES}.",
                type="payload_too_large",
                non_retryable=True,
            )
        digest = await asyncio.to_thread(_digest, data)
        key = payload_key(StoredPayload(namespace, workflow_id, digest))
        if not self._read_only:
            await self._put(key, data)
        return StorageDriverClaim({"key": key, "sha256": digest})

    async def _put(self, key: str, data: bytes) -> None:
        """Write the object even if it exists: the sweep may be about to remove an old one."""
        try:
            await self._objects.put(key, data)
        except Exception as error:
            raise PayloadUnavailable(f"The store accepts no payload ({type(error).__name__}): {error}") from error

    async def _retrieve(self, claim: StorageDriverClaim) -> Payload:
        key, digest = claim.claim_data["key"], claim.claim_data["sha256"]
        data = await self._get(key)
        if data is None:
            raise PayloadLost(
                f"A stored argument or result is missing: {key} is not in the store. Every API and worker process has "
                "to use the same one (OUTLAST_STORE_URL)."
            )
        if await asyncio.to_thread(_digest, data) != digest:
            raise PayloadLost(f"A stored argument or result is damaged: the content of {key} has changed.")
        payload = Payload()
        try:
            payload.ParseFromString(data)
        except DecodeError as error:
            raise PayloadLost(f"A stored argument or result cannot be read: {key}.") from error
        return payload

    async def _get(self, key: str) -> bytes | None:
        try:
            return await self._objects.get(key)
        except OutputDamaged as error:
            raise PayloadLost(f"A stored argument or result is damaged: {key}: {error}") from error
        except Exception as error:
            if isinstance(error.__cause__, ContentKeyMissing):
                raise error.__cause__ from None
            raise PayloadUnavailable(f"The store does not answer ({type(error).__name__}): {error}") from error


def external_storage(objects: OutputObjects, *, read_only: bool = False) -> ExternalStorage:
    """The setting of a data converter that keeps large payloads in `objects`."""
    driver = PayloadDriver(objects, read_only=read_only)

    def select_driver(context: StorageDriverSelectContext, _payload: Payload) -> StorageDriver | None:
        """Store payloads of workflows only: for others nothing says when they may be removed."""
        target = context.target
        if not isinstance(target, StorageDriverWorkflowInfo) or target.id is None:
            return None
        return driver if len(as_folder(target.id)) <= _MAX_NAME_CHARS else None

    return ExternalStorage(drivers=[driver], driver_selector=select_driver, payload_size_threshold=THRESHOLD_BYTES)


async def _together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    # No TaskGroup: the SDK has to see the error itself, not a group of errors.
    return list(await asyncio.gather(*work))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
