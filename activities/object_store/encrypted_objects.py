"""An object store whose objects are encrypted: each in chunks, so that a part of an object is read without the rest.

    header (64 bytes)  magic (4), key id (40, padded with zero bytes), nonce prefix (8), size of the content (8)
    chunks             64 KiB of the content each, AES-GCM, the number of the chunk in its nonce

Every chunk is bound to its object's key and header: chunks cannot be moved between objects, nor objects renamed. The
tenant is the first folder below the kind of object, which for outputs is their caller's.
"""

import asyncio
import secrets
import struct
from dataclasses import dataclass

from outlast.activities.failures.output_errors import OutputDamaged, StoredKeyMissing
from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.secrets import encryption

_MAGIC = b"\x8eOL1"
"""Begins neither JSON, nor a Zstandard frame, nor a message of Protocol Buffers."""
_HEADER = struct.Struct(">4s40s8sQ4x")
_PREFIX_BYTES = 8
CHUNK_BYTES = 64 * 1024
_STORED_CHUNK_BYTES = CHUNK_BYTES + encryption.TAG_BYTES


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

    def __init__(self, plain: OutputObjects, cipher: encryption.ContentCipher, *, encrypts: bool) -> None:
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
            pieces.append(sealed[encryption.NONCE_BYTES :])
        return b"".join(pieces)

    def _opened(self, key: str, header: _Header, sealed: bytes, first: int) -> bytes:
        pieces: list[bytes] = []
        for number, start in enumerate(range(0, len(sealed), _STORED_CHUNK_BYTES), start=first):
            data = _nonce(header.prefix, number) + sealed[start : start + _STORED_CHUNK_BYTES]
            bound_to = header.raw + key.encode()
            try:
                pieces.append(self._cipher.decrypt(header.key_id, data, tenant=_tenant(key), bound_to=bound_to))
            except encryption.ContentDamaged as error:
                raise OutputDamaged(str(error)) from error
            except encryption.ContentKeyMissing as error:
                # Nothing is lost: it can be read again when the key is back.
                raise StoredKeyMissing(str(error)) from error
        return b"".join(pieces)


def _nonce(prefix: bytes, number: int) -> bytes:
    return prefix + number.to_bytes(encryption.NONCE_BYTES - _PREFIX_BYTES, "big")


def _stored_size(content_bytes: int) -> int:
    chunks = -(-content_bytes // CHUNK_BYTES)
    return content_bytes + chunks * encryption.TAG_BYTES


def _tenant(key: str) -> str:
    return "/".join(["stored", *key.split("/")[1:2]])
