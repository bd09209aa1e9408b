"""The object store: a folder, S3, GCS or Azure, through obstore.

parts/<scope>/<task id>.<16 hex>/00000.<16 hex>.zst   frames, written as they arrive, never changed
manifests/<scope>/<name>.json                         written last and atomically: an output with one is complete
tombstones/<scope>/<name>.json                        the reason why an output was removed
payloads/<namespace>/<workflow id>/<sha256>           large payloads of Temporal, and large parts of inputs

An object store whose objects are encrypted: each in chunks, so that a part of an object is read without the rest.

    header (64 bytes)  magic (4), key id (40, padded with zero bytes), nonce prefix (8), size of the content (8)
    chunks             64 KiB of the content each, AES-GCM, the number of the chunk in its nonce

Every chunk is bound to its object's key and header: chunks cannot be moved between objects, nor objects renamed. The
tenant is the first folder below the kind of object, which for outputs is their caller's.

Large parts of a run's input in the object store, and the input as text with the parts in their places. They lie
beside the payloads of the task's workflow, `payloads/<namespace>/<workflow id>/<sha256>`, so that the sweep keeps them
as long as Temporal keeps the workflow.
"""

import asyncio
import hashlib
import os
import re
import secrets
import struct
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, ObjectStore, from_url
from pydantic import JsonValue
from pydantic_core import to_json

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import ObjectUnavailable, OutputDamaged, StoredKeyMissing, StoreUnavailable
from outlast.activities.secrets import (
    NONCE_BYTES,
    TAG_BYTES,
    ContentCipher,
    ContentDamaged,
    ContentKeyMissing,
    KeptPart,
    part_of,
)
from outlast.fingerprints import as_folder

if TYPE_CHECKING:
    from obstore import ListResult, ListStream, ObjectMeta

_LIST_CHUNK = 500
_STAGED = re.compile(r".+#\d+")
"""The names that obstore gives to incomplete files on disk; they remain after a crash."""
_ENDPOINTS = ("endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "azure_storage_endpoint")
_RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}


@dataclass(frozen=True)
class StoredObject:
    """One object of a listing."""

    key: str
    size: int
    modified_at: datetime


class OutputObjects:
    """Reads and writes objects by key. Every method raises `StoreUnavailable` (a retry may help), `PermissionError`, or
    `OSError` for a folder that cannot be written.
    """

    def __init__(self, store: ObjectStore, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder

    @property
    def store(self) -> ObjectStore:
        """The place of the objects."""
        return self._store

    @property
    def folder(self) -> Path | None:
        """Its path when it is on disk."""
        return self._folder

    @classmethod
    def open(cls, url: str, **options: Any) -> "OutputObjects":
        """Open a store by its URL: `s3://bucket/prefix`, `gs://…`, `az://…`, `file:///folder`, or a folder's path.
        Credentials and endpoints come from the usual environment variables (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …)
        or from `options` (obstore's names). Plain HTTP needs an endpoint with `http://`.
        """
        if "://" not in url or url.startswith("file://"):
            path = Path(unquote(urlsplit(url).path) if url.startswith("file://") else url).expanduser().resolve()
            return cls(LocalStore(path, mkdir=True, automatic_cleanup=True), path)
        return cls(_store_at(url, **{"client_options": _client_options(options), "retry_config": _RETRIES, **options}))

    async def put(self, key: str, data: bytes) -> None:
        """Write an object atomically: a reader sees the old object or the new one, also after a crash."""
        with _own_errors():
            # After a crash, the parts of a multipart upload would remain on the server, where no listing shows them.
            await obstore.put_async(self._store, key, data, use_multipart=False)

    async def get(self, key: str) -> bytes | None:
        """The whole object, or None when it does not exist. Raises `ObjectUnavailable` for a file that cannot be read,
        although others can.
        """
        try:
            with _own_errors():
                result = await obstore.get_async(self._store, key)
                return bytes(await result.bytes_async())
        except FileNotFoundError:
            return None
        except (StoreUnavailable, PermissionError):
            await self._check_file(key)
            raise

    async def _check_file(self, key: str) -> None:
        """Raise `ObjectUnavailable` if it is the file of this object that cannot be read, not the store."""
        if self._folder is None:
            return
        path = self._folder / key
        try:
            await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            if await asyncio.to_thread(os.access, self._folder, os.R_OK | os.X_OK):
                raise ObjectUnavailable(f"Its file cannot be read ({error.strerror}).") from error

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end` (exclusive). Raises `OutputDamaged` when the object is missing or too short."""
        if not 0 <= start < end:
            raise OutputDamaged("A part is shorter than in its index.")
        try:
            with _own_errors():
                data = bytes(await obstore.get_range_async(self._store, key, start=start, end=end))
        except FileNotFoundError as error:
            raise OutputDamaged("A part is missing.") from error
        except OSError as error:
            # Stores also fail for a range beyond the end of the object.
            size = await self.size(key)
            if size is None or size < end:
                raise OutputDamaged("A part is shorter than it was.") from error
            raise
        if len(data) != end - start:
            raise OutputDamaged("A part is shorter than it was.")
        return data

    async def size(self, key: str) -> int | None:
        """Return the size of an object in bytes, or None when it does not exist."""
        try:
            with _own_errors():
                return (await obstore.head_async(self._store, key))["size"]
        except FileNotFoundError:
            return None

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, also incomplete files. Objects that do not exist are ignored."""
        for key in keys:
            if _STAGED.fullmatch(key) and self._folder is not None:
                await asyncio.to_thread(_inside(self._folder, key).unlink, missing_ok=True)
                continue
            try:
                with _own_errors():
                    await obstore.delete_async(self._store, key)
            except FileNotFoundError:
                continue

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        """Yield the objects in the folder `prefix` and below it, without those that are still being written."""
        with _own_errors():
            chunks: ListStream[Sequence[ObjectMeta]]
            chunks = obstore.list(self._store, prefix, chunk_size=_LIST_CHUNK)  # pyright: ignore[reportUnknownMemberType]
            async for chunk in chunks:
                for entry in chunk:
                    yield StoredObject(entry["path"], entry["size"], entry["last_modified"])

    async def folders(self, prefix: str) -> tuple[str, ...]:
        """Names of the folders in the folder `prefix`, sorted."""
        with _own_errors():
            found: ListResult[Sequence[ObjectMeta]]
            found = await obstore.list_with_delimiter_async(self._store, prefix)  # pyright: ignore[reportUnknownMemberType]
        return tuple(sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]))

    async def staged_leftovers(self) -> tuple[StoredObject, ...]:
        """Incomplete files of running or killed writes, in a store on disk. Recent ones may still be written."""
        folder = self._folder
        return () if folder is None else await asyncio.to_thread(lambda: tuple(_staged_below(folder)))


def part_key(scope: str, upload: str, number: int, stored_digest: str) -> str:
    """The key of a part. It contains a digest of the object, so that no attempt overwrites the part of another."""
    return f"{parts_prefix(scope, upload)}/{number:05d}.{stored_digest[:16]}.zst"


def parts_prefix(scope: str, upload: str) -> str:
    """Return the prefix of the parts of one upload."""
    return f"parts/{scope}/{upload}"


_store_at = cast("Callable[..., ObjectStore]", from_url)
"""Its type stubs expect the options of one service, which only the URL determines."""


def _client_options(options: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = dict(options.pop("client_options", {}))
    endpoints = [str(options.get(name, "")) for name in _ENDPOINTS]
    endpoints += [os.environ.get(name.upper(), "") for name in _ENDPOINTS]
    allow_http = any(endpoint.startswith("http://") for endpoint in endpoints)
    timeouts = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(minutes=5)}
    return {**timeouts, "allow_http": allow_http, **given}


@contextmanager
def _own_errors() -> Generator[None]:
    """Turn obstore's exceptions into those of this module; `FileNotFoundError` passes unchanged."""
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(f"The output store refuses access: {_first_line(error)}") from error
    except BaseError as error:
        raise StoreUnavailable(f"The output store does not respond: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    """Return the message without the dump of internal structures that obstore appends."""
    return str(error).partition("\n")[0][:300]


def _inside(folder: Path, key: str) -> Path:
    path = (folder / key).resolve()
    if not path.is_relative_to(folder):
        raise PermissionError("A key must not point outside the store.")
    return path


def _staged_below(folder: Path) -> Iterable[StoredObject]:
    for path in folder.rglob("*#*"):
        if not _STAGED.fullmatch(path.name):
            continue
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # It was completed since.
        yield StoredObject(
            path.relative_to(folder).as_posix(), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC)
        )


PAYLOADS = "payloads"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredPayload:
    """The parts of a payload's key."""

    namespace: str
    workflow_id: str
    digest: str


def payload_key(payload: StoredPayload) -> str:
    """Return the key of the payload."""
    return f"{payloads_prefix(payload.namespace, payload.workflow_id)}/{payload.digest}"


def payloads_prefix(namespace: str, workflow_id: str | None = None) -> str:
    """Return the prefix of the payloads of a namespace, or of one of its workflows."""
    parts = (PAYLOADS, as_folder(namespace)) + ((as_folder(workflow_id),) if workflow_id is not None else ())
    return "/".join(parts)


def parse_payload_key(key: str) -> StoredPayload | None:
    """Return the parts of a payload's key; None for any other key."""
    match key.split("/"):
        case [prefix, namespace, workflow_id, digest] if prefix == PAYLOADS and _DIGEST.fullmatch(digest):
            return StoredPayload(_from_folder(namespace), _from_folder(workflow_id), digest)
        case _:
            return None


def _from_folder(folder: str) -> str:
    return re.sub(
        r"(?:=[0-9A-F]{2})+", lambda found: bytes.fromhex(found[0].replace("=", "")).decode(errors="replace"), folder
    )


_MAGIC = b"\x8eOL1"
"""Begins neither JSON, nor a Zstandard frame, nor a message of Protocol Buffers."""
_HEADER = struct.Struct(">4s40s8sQ4x")
_PREFIX_BYTES = 8
CHUNK_BYTES = 64 * 1024
_STORED_CHUNK_BYTES = CHUNK_BYTES + TAG_BYTES


@dataclass(frozen=True, slots=True)
class _Header:
    raw: bytes
    key_id: str
    prefix: bytes
    size: int

    @classmethod
    def read(cls, raw: bytes) -> "_Header | None":
        """None for an object that is not encrypted."""
        if len(raw) < _HEADER.size or not raw.startswith(_MAGIC):
            return None
        _, key_id, prefix, size = _HEADER.unpack(raw[: _HEADER.size])
        return cls(raw[: _HEADER.size], key_id.rstrip(b"\0").decode(errors="replace"), prefix, size)


class EncryptedObjects(OutputObjects):
    """Reads encrypted objects, and those from before encryption was on. With `encrypts` it writes encrypted ones."""

    def __init__(self, plain: OutputObjects, cipher: ContentCipher, *, encrypts: bool) -> None:
        super().__init__(plain.store, plain.folder)
        self._cipher = cipher
        self._encrypts = encrypts

    async def put(self, key: str, data: bytes) -> None:
        """See `OutputObjects.put`."""
        await super().put(key, await asyncio.to_thread(self._sealed, key, data) if self._encrypts else data)

    async def get(self, key: str) -> bytes | None:
        """See `OutputObjects.get`. Raises `OutputDamaged` also when the content does not open."""
        data = await super().get(key)
        header = None if data is None else _Header.read(data)
        if data is None or header is None:
            return data
        content = await asyncio.to_thread(self._opened, key, header, data[_HEADER.size :], 0)
        if len(content) != header.size:
            raise OutputDamaged("An encrypted object is shorter than it was.")
        return content

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        """See `OutputObjects.get_range`."""
        header = await self._header(key)
        if header is None:
            return await super().get_range(key, start, end)
        if not 0 <= start < end <= header.size:
            raise OutputDamaged("A part is shorter than in its index.")
        first, last = start // CHUNK_BYTES, (end - 1) // CHUNK_BYTES
        stored_end = min((last + 1) * _STORED_CHUNK_BYTES, _stored_size(header.size))
        sealed = await super().get_range(key, _HEADER.size + first * _STORED_CHUNK_BYTES, _HEADER.size + stored_end)
        content = await asyncio.to_thread(self._opened, key, header, sealed, first)
        return content[start - first * CHUNK_BYTES : end - first * CHUNK_BYTES]

    async def size(self, key: str) -> int | None:
        """See `OutputObjects.size`: the size of the content."""
        stored = await super().size(key)
        if stored is None or stored < _HEADER.size:
            return stored
        header = await self._header(key)
        return stored if header is None else header.size

    async def _header(self, key: str) -> _Header | None:
        stored = await super().size(key)
        if stored is None or stored < _HEADER.size:
            return None
        return _Header.read(await super().get_range(key, 0, _HEADER.size))

    def _sealed(self, key: str, data: bytes) -> bytes:
        prefix = secrets.token_bytes(_PREFIX_BYTES)
        header = _HEADER.pack(_MAGIC, self._cipher.key_id.encode(), prefix, len(data))
        pieces = [header]
        for number, start in enumerate(range(0, len(data), CHUNK_BYTES)):
            nonce = _nonce(prefix, number)
            sealed = self._cipher.encrypt(
                data[start : start + CHUNK_BYTES], tenant=_tenant(key), bound_to=header + key.encode(), nonce=nonce
            )
            pieces.append(sealed[NONCE_BYTES:])
        return b"".join(pieces)

    def _opened(self, key: str, header: _Header, sealed: bytes, first: int) -> bytes:
        pieces: list[bytes] = []
        for number, start in enumerate(range(0, len(sealed), _STORED_CHUNK_BYTES), start=first):
            data = _nonce(header.prefix, number) + sealed[start : start + _STORED_CHUNK_BYTES]
            bound_to = header.raw + key.encode()
            try:
                pieces.append(self._cipher.decrypt(header.key_id, data, tenant=_tenant(key), bound_to=bound_to))
            except ContentDamaged as error:
                raise OutputDamaged(str(error)) from error
            except ContentKeyMissing as error:
                # Nothing is lost: it can be read again when the key is back.
                raise StoredKeyMissing(str(error)) from error
        return b"".join(pieces)


def _nonce(prefix: bytes, number: int) -> bytes:
    return prefix + number.to_bytes(NONCE_BYTES - _PREFIX_BYTES, "big")


def _stored_size(content_bytes: int) -> int:
    chunks = -(-content_bytes // CHUNK_BYTES)
    return content_bytes + chunks * TAG_BYTES


def _tenant(key: str) -> str:
    return "/".join(["stored", *key.split("/")[1:2]])


PATIENT_ATTEMPTS = 8
"""Attempts in which a missing part is waited for, some 90 seconds: a worker with the wrong store may have had them."""


class KeptParts:
    """The large parts of the inputs of one namespace's tasks."""

    def __init__(self, objects: OutputObjects, *, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    async def keep(self, task_id: str, text: bytes, *, secret: bool) -> JsonValue:
        """Write the JSON text, and return its mark. Raises what `OutputObjects` raises."""
        digest = await asyncio.to_thread(_digest, text)
        await self._objects.put(self._key(task_id, digest), text)
        return KeptPart.of(text, digest, secret=secret).as_mark

    async def text_of(self, value: JsonValue, *, task_id: str, attempt: int = PATIENT_ATTEMPTS) -> bytes:
        """`value` as JSON; the kept text when it is a mark. Raises `ToolFailure` for a part that is missing or damaged,
        not to be retried after `PATIENT_ATTEMPTS`, and what `OutputObjects` raises.
        """
        part = part_of(value)
        if part is None:
            return to_json(value)
        text = await self._objects.get(self._key(task_id, part.sha256))
        if text is None or await asyncio.to_thread(_digest, text) != part.sha256:
            raise _lost(part, missing=text is None, attempt=attempt)
        return text

    def _key(self, task_id: str, digest: str) -> str:
        return payload_key(StoredPayload(self._namespace, task_id, digest))


def _lost(part: KeptPart, *, missing: bool, attempt: int) -> ToolFailure:
    found = "is not in the store" if missing else "has changed in the store"
    return ToolFailure.of(
        ErrorCategory.FILESYSTEM,
        f"A part of the input, {part.size_bytes} bytes with the digest {part.sha256[:12]}, {found}.",
        "Call again. Operators: every API and worker process has to use the same store (OUTLAST_STORE_URL).",
        retryable=attempt < PATIENT_ATTEMPTS,
    )


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
