"""Authenticated encryption of secrets and content, with key ids for rotation: AES-256-GCM (NIST SP 800-38D), random
96-bit nonce. Secrets are decrypted only inside activities: no history, database or log has them in clear text. The
purpose (the caller's id) is authenticated, so a copied value does not decrypt for another caller.
"""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import JsonValue, SecretStr

from outlast.activities.contracts import SealedSecret
from outlast.activities.failures.exceptions import SealError
from outlast.fingerprints import KEY_BYTES, check_ring, parse_ring

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
        """Return the content that `encrypt` was given. Raises `ContentKeyMissing` or `ContentDamaged`."""
        if key_id not in self._keys:
            raise ContentKeyMissing(
                f"This was encrypted under the key {key_id!r}, which is not in the ring of sealing keys. Put it back "
                "(OUTLAST_SEAL_KEYS or OUTLAST_SEAL_KEYS_FILE), for API and worker."
            )
        try:
            return AESGCM(self._derived(key_id, tenant)).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError) as error:
            raise ContentDamaged("Encrypted content does not open: it was changed or moved.") from error

    def nonce_of(self, data: bytes, *, tenant: str) -> bytes:
        """Return a nonce that follows from the content: the same content is encrypted to the same bytes again."""
        key = self._derived(self.key_id, f"nonces of {tenant}")
        return hmac.new(key, data, hashlib.sha256).digest()[:NONCE_BYTES]

    def _derive(self, key_id: str, tenant: str) -> bytes:
        derivation = HKDF(SHA256(), _KEY_BYTES, salt=None, info=f"outlast content 1\0{tenant}".encode())
        return derivation.derive(self._keys[key_id])


_NONCE_BYTES = 12


class SecretSealer:
    """Seals with the first key of the ring and opens with any of them. To rotate keys, put the new key first and keep
    the old one as long as tasks that were encrypted under it may run.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """`keys` is `{key id: 32 bytes}`, the encrypting key first. Raises `SealError` for no key or a wrong size."""
        try:
            check_ring(keys)
        except ValueError as error:
            raise SealError(str(error)) from error
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._keys = dict(keys)
        self._sealing_key_id = next(iter(keys))

    @classmethod
    def from_text(cls, text: str) -> "SecretSealer":
        """Read a ring of `KEYID:base64` entries, separated by line breaks or commas; `#` starts a comment line."""
        try:
            return cls(parse_ring(text))
        except ValueError as error:
            raise SealError(str(error)) from error

    @classmethod
    def from_file(cls, path: Path) -> "SecretSealer":
        """Read the ring from a file, see `from_text`. Raises `SealError` when it cannot be read."""
        try:
            return cls.from_text(path.read_text())
        except OSError as error:
            raise SealError(f"Cannot read the sealing keys in {path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise SealError(f"The sealing keys in {path} are not text: the file is damaged.") from error

    @classmethod
    def ephemeral(cls) -> "SecretSealer":
        """Return a ring with one random key that is lost with the process; for tests and single-process use."""
        return cls({"ephemeral": secrets.token_bytes(KEY_BYTES)})

    def content_cipher(self) -> ContentCipher:
        """Return the cipher of contents under keys that are derived from this ring."""
        return ContentCipher(self._keys)

    @property
    def ring(self) -> Mapping[str, bytes]:
        """The keys by id, the encrypting key first. For fingerprints; nothing else needs them."""
        return self._keys

    def seal(self, secret: SecretStr, *, purpose: str) -> SealedSecret:
        """Encrypt `secret`; it opens only for the same `purpose`."""
        key_id, sealed = self.seal_bytes(secret.get_secret_value().encode(), purpose=purpose)
        return SealedSecret(key_id=key_id, ciphertext=base64.b64encode(sealed).decode())

    def seal_bytes(self, data: bytes, *, purpose: str) -> tuple[str, bytes]:
        """Encrypt content; returns the id of the key and the encrypted bytes, which open for the same `purpose`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return self._sealing_key_id, nonce + self._ciphers[self._sealing_key_id].encrypt(nonce, data, purpose.encode())

    def open_bytes(self, key_id: str, sealed: bytes, *, purpose: str) -> bytes:
        """Open what `seal_bytes` has encrypted. Raises `SealError` as `open` does."""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise SealError(f"Sealing key {key_id!r} is not in the ring; was it rotated out too early?")
        try:
            return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError) as error:
            raise SealError("Sealed content cannot be opened: it was changed, or sealed for another owner.") from error

    def digests(self, value: JsonValue) -> tuple[str, ...]:
        """Keyed digests of `value`, one per key of the ring, the encrypting key's first. Equal secrets have equal
        digests, also after a rotation, and the digests do not help to guess a secret.
        """
        text = json.dumps(value, sort_keys=True).encode()
        return tuple(hmac.new(key, text, hashlib.sha256).hexdigest() for key in self._keys.values())

    def derived_keys(self, purpose: str) -> dict[str, bytes]:
        """A key of 32 bytes for `purpose` from each key of the ring, by its id, the encrypting key's first (RFC 5869).
        A derived key reveals nothing about the ring, nor about the key of another purpose.
        """
        return {
            key_id: HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose.encode()).derive(key)
            for key_id, key in self._keys.items()
        }

    def open(self, sealed: SealedSecret, *, purpose: str) -> SecretStr:
        """Open an encrypted secret. Raises `SealError` for an unknown key, another purpose or a changed ciphertext."""
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise SealError(f"Sealing key {sealed.key_id!r} is not in the ring; was it rotated out too early?")
        try:
            raw = base64.b64decode(sealed.ciphertext, validate=True)
            plain = cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], purpose.encode())
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise SealError("A secret cannot be opened: it was changed, or encrypted for another caller.") from error
        return SecretStr(plain.decode())
