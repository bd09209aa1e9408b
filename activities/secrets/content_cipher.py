"""Encrypts what Outlast keeps: AES-256-GCM under keys that are derived from the sealing ring, one for each tenant.

A key is derived with HKDF-SHA-256 (RFC 5869) from a key of the ring and the tenant's name, so that content copied from
one tenant's place to another's does not open there, and no derived key says anything about the ring.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12
TAG_BYTES = 16
MAX_KEY_ID_BYTES = 40
_KEY_BYTES = 32


class ContentKeyMissing(Exception):
    """The content was encrypted under a key that is not in the ring. The message names the key."""


class ContentDamaged(Exception):
    """The content does not open: it was changed, cut, or belongs to another place."""


class ContentCipher:
    """Encrypts with the first key of the ring, and decrypts with any of them."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """`keys` is the ring. Raises `ValueError` for a key id of more than `MAX_KEY_ID_BYTES`."""
        for key_id in keys:
            if len(key_id.encode()) > MAX_KEY_ID_BYTES:
                raise ValueError(f"With encryption, a key id has at most {MAX_KEY_ID_BYTES} bytes: {key_id!r}.")
        self._keys = dict(keys)
        self.key_id = next(iter(keys))
        self._derived = lru_cache(maxsize=4096)(self._derive)

    def encrypt(self, data: bytes, *, tenant: str, bound_to: bytes, nonce: bytes | None = None) -> bytes:
        """Nonce and ciphertext of `data`. It opens for the same tenant and the same `bound_to` only."""
        nonce = nonce or secrets.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self._derived(self.key_id, tenant)).encrypt(nonce, data, bound_to)

    def decrypt(self, key_id: str, data: bytes, *, tenant: str, bound_to: bytes) -> bytes:
        """The content that `encrypt` was given. Raises `ContentKeyMissing` or `ContentDamaged`."""
        if key_id not in self._keys:
            raise ContentKeyMissing(
                f"This was encrypted under the key {key_id!r}, which is not in the ring of sealing keys. Put it back "
                "(OUTLAST_SEAL_KEYS or OUTLAST_SEAL_KEYS_FILE), for API and worker."
            )
        try:
            return AESGCM(self._derived(key_id, tenant)).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError) as error:
            raise ContentDamaged(
                "Encrypted content does not open: it was changed, or is in another's place."
            ) from error

    def nonce_of(self, data: bytes, *, tenant: str) -> bytes:
        """A nonce that follows from the content: the same content is encrypted to the same bytes again."""
        key = self._derived(self.key_id, f"nonces of {tenant}")
        return hmac.new(key, data, hashlib.sha256).digest()[:NONCE_BYTES]

    def _derive(self, key_id: str, tenant: str) -> bytes:
        derivation = HKDF(SHA256(), _KEY_BYTES, salt=None, info=f"outlast content 1\0{tenant}".encode())
        return derivation.derive(self._keys[key_id])
