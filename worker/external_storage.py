"""Temporal's payloads above 256 KB live in the output store; the history holds a reference to each.

    payloads/<namespace>/<workflow id>/<sha256>    one payload, as the history would have held it
    payloads/store-id                              tells this store from any other

The key names the workflow, so that the sweep can ask whether that is still known. Content-addressed: a replay, which
stores everything again, writes what is there already.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
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

from activities.output_store.store import OutputObjects

T = TypeVar("T")

THRESHOLD_BYTES = 256 * 1024
"""Smaller payloads stay in the history."""

MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""A worker holds an argument or result in memory several times; what is larger belongs into an output."""

PAYLOADS = "payloads"
_STORE_ID = f"{PAYLOADS}/store-id"
_DRIVER = "outlast"
_MAX_NAME_CHARS = 180
"""A folder's name on a disk has 255 at most, an object's whole key 1,024."""


class PayloadLost(ApplicationError):
    """A payload that was stored is gone, or is not what was stored. Trying again does not help: the workflow fails."""

    def __init__(self, message: str) -> None:
        """Not retryable."""
        super().__init__(message, type="payload_lost", non_retryable=True)


class PayloadUnavailable(Exception):
    """The store does not answer, or this process looks into another store than the payload is in. Tried again."""


@dataclass(frozen=True)
class StoredPayload:
    """A payload's key, taken apart."""

    namespace: str
    workflow_id: str
    digest: str


def payload_key(payload: StoredPayload) -> str:
    """Where the payload is."""
    return f"{payloads_prefix(payload.namespace)}/{_folder(payload.workflow_id)}/{payload.digest}"


def payloads_prefix(namespace: str) -> str:
    """Where the payloads of one namespace are."""
    return f"{PAYLOADS}/{_folder(namespace)}"


def parse_payload_key(key: str) -> StoredPayload | None:
    """What a key says; None when it is not a payload's."""
    match key.split("/"):
        case ["payloads", namespace, workflow_id, digest] if re.fullmatch(r"[0-9a-f]{64}", digest):
            return StoredPayload(_unfolded(namespace), _unfolded(workflow_id), digest)
        case _:
            return None


class PayloadDriver(StorageDriver):
    """Stores payloads of workflows through obstore, and verifies the digest on every read."""

    def __init__(self, objects: OutputObjects, *, read_only: bool = False) -> None:
        """Keep them in `objects`. With `read_only`, for replays, claims are made and nothing is written."""
        self._objects = objects
        self._read_only = read_only
        self._store_id: str | None = None

    def name(self) -> str:
        """The same in every process: references in histories carry it."""
        return _DRIVER

    def type(self) -> str:
        """What kind of driver this is, for the Temporal server's records."""
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
        """Read each payload. Raises `PayloadLost` or `PayloadUnavailable`."""
        return await _together([self._retrieve(claim) for claim in claims])

    async def _store(self, namespace: str, workflow_id: str, payload: Payload) -> StorageDriverClaim:
        data = payload.SerializeToString()
        if len(data) > MAX_PAYLOAD_BYTES:
            raise ApplicationError(
                f"An argument or result has {len(data)} bytes; at most {MAX_PAYLOAD_BYTES} are taken.",
                type="payload_too_large",
                non_retryable=True,
            )
        digest = await asyncio.to_thread(_digest, data)
        key = payload_key(StoredPayload(namespace, workflow_id, digest))
        if not self._read_only:
            await self._put(key, data)
        return StorageDriverClaim({"key": key, "sha256": digest, "store": await self._identity()})

    async def _put(self, key: str, data: bytes) -> None:
        """Also when it is there already: the sweep takes old payloads of workflows that have not begun."""
        try:
            await self._objects.put(key, data)
        except Exception as error:
            raise PayloadUnavailable(f"The store takes nothing ({type(error).__name__}): {error}") from error

    async def _retrieve(self, claim: StorageDriverClaim) -> Payload:
        key, digest = claim.claim_data["key"], claim.claim_data["sha256"]
        data = await self._get(key)
        if data is None:
            raise await self._missing(key, claim.claim_data.get("store"))
        if await asyncio.to_thread(_digest, data) != digest:
            raise PayloadLost(f"A stored argument or result is damaged: {key} is not what was stored.")
        payload = Payload()
        try:
            payload.ParseFromString(data)
        except DecodeError as error:
            raise PayloadLost(f"A stored argument or result cannot be read: {key}.") from error
        return payload

    async def _missing(self, key: str, store_id: str | None) -> Exception:
        """Gone from its own store for good; or this process was pointed at another store, which can be put right."""
        if store_id is not None and store_id != await self._identity():
            return PayloadUnavailable(
                f"{key} was stored in another store than this process uses; OUTLAST_STORE_URL (or the shared folder "
                "behind it) has to be the same for every API and worker process."
            )
        return PayloadLost(f"A stored argument or result is missing: {key} is not in the store any more.")

    async def _identity(self) -> str:
        """A random name that the store keeps; written by whoever comes first."""
        if self._store_id is None:
            found = await self._get(_STORE_ID)
            if found is None and not self._read_only:
                await self._put(_STORE_ID, secrets.token_hex(8).encode())
                found = await self._get(_STORE_ID)
            self._store_id = found.decode() if found else None
        return self._store_id or "none"

    async def _get(self, key: str) -> bytes | None:
        try:
            return await self._objects.get(key)
        except Exception as error:
            raise PayloadUnavailable(f"The store does not answer ({type(error).__name__}): {error}") from error


def external_storage(objects: OutputObjects, *, read_only: bool = False) -> ExternalStorage:
    """What a data converter needs to keep large payloads in `objects`."""
    driver = PayloadDriver(objects, read_only=read_only)

    def select_driver(context: StorageDriverSelectContext, _payload: Payload) -> StorageDriver | None:
        """Only for workflows, since nobody could tell when the payload of anything else may go."""
        target = context.target
        if not isinstance(target, StorageDriverWorkflowInfo) or target.id is None:
            return None
        return driver if len(_folder(target.id)) <= _MAX_NAME_CHARS else None

    return ExternalStorage(drivers=[driver], driver_selector=select_driver, payload_size_threshold=THRESHOLD_BYTES)


async def _together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    # No TaskGroup: the SDK has to see the error itself, not a group of errors.
    return list(await asyncio.gather(*work))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _folder(name: str) -> str:
    """A name as one part of a key: other characters than letters, digits, `_` and `-` as `=` and two hex digits."""
    return re.sub(
        r"[^A-Za-z0-9_-]", lambda found: "".join(f"={byte:02X}" for byte in found[0].encode()), name, flags=re.ASCII
    )


def _unfolded(folder: str) -> str:
    return re.sub(
        r"(?:=[0-9A-F]{2})+", lambda found: bytes.fromhex(found[0].replace("=", "")).decode(errors="replace"), folder
    )
