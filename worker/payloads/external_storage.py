"""Keeps Temporal's payloads above 256 KB in the output store; the history holds a reference to each.

    payloads/<namespace>/<workflow id>/<sha256>

The key names the workflow, so that the sweep can ask Temporal whether it still exists. The digest in the key makes a
replay, which stores everything again, write the same objects.
"""

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)
from temporalio.exceptions import ApplicationError

from outlast.activities.failures.exceptions import OutputDamaged
from outlast.activities.object_store import OutputObjects, StoredPayload, payload_key
from outlast.activities.secrets import ContentDamaged, ContentKeyMissing
from outlast.fingerprints import as_folder
from outlast.worker.payloads.converter import PayloadUnreadable

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
