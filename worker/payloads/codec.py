"""Encrypts what Temporal keeps of workflows: arguments, results, memos, signals, heartbeats, failures and summaries.

Search attributes, ids and types of workflows stay plain: Temporal works with them. The payload
is encrypted before it is decided whether it is kept in the history or in the output store.
"""

import asyncio
from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from outlast.activities.secrets.encryption import ContentCipher

ENCODING = b"binary/encrypted"
"""As Temporal's own samples name it, so that tools recognise it."""
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
