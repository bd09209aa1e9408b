"""The form of API keys, and the slow hash that a policy file has of each."""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Self

from pydantic import SecretStr

PREFIX = "ol_"
_SECRET_BYTES = 24
_COST, _BLOCK, _PARALLEL = 2**14, 8, 1
"""scrypt parameters of new keys: 16 MiB and about 50 ms (RFC 7914)."""
_MAX_MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class KeyHash:
    """The slow hash of a key's secret, as a policy file has it: `scrypt$N$R$P$SALT$HASH`."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `ValueError` that quotes nothing of `text`."""
        try:
            kind, cost, block, parallel, salt, digest = text.split("$")
            found = cls(int(cost), int(block), int(parallel), _decoded(salt), _decoded(digest))
        except ValueError:
            raise ValueError("reads `scrypt$N$R$P$SALT$HASH`; make one with `outlast keys create`") from None
        if kind != "scrypt" or not found._is_bounded():
            raise ValueError("is no scrypt hash with N a power of two, and at most 64 MiB of memory")
        return found

    @classmethod
    def of(cls, secret: str) -> Self:
        """A new hash, with a salt of its own."""
        salt = secrets.token_bytes(16)
        return cls(_COST, _BLOCK, _PARALLEL, salt, _scrypt(secret, salt, _COST, _BLOCK, _PARALLEL, 32))

    def __str__(self) -> str:
        """As the policy file has it."""
        parts = (self.cost, self.block, self.parallel, _encoded(self.salt), _encoded(self.digest))
        return "$".join(("scrypt", *map(str, parts)))

    def fits(self, secret: str) -> bool:
        """Whether it is the hash of `secret`. Slow on purpose: call it off the event loop."""
        found = _scrypt(secret, self.salt, self.cost, self.block, self.parallel, len(self.digest))
        return hmac.compare_digest(found, self.digest)

    def _is_bounded(self) -> bool:
        power_of_two = self.cost > 1 and self.cost & (self.cost - 1) == 0
        sizes = 1 <= self.block <= 64 and 1 <= self.parallel <= 4 and len(self.salt) >= 8 and len(self.digest) >= 16
        return power_of_two and sizes and 128 * self.cost * self.block <= _MAX_MEMORY_BYTES


def new_key(key_id: str) -> tuple[SecretStr, KeyHash]:
    """A new key with this id, and the hash that proves it."""
    secret = secrets.token_hex(_SECRET_BYTES)
    return SecretStr(f"{PREFIX}{key_id}_{secret}"), KeyHash.of(secret)


def split_key(bearer: str) -> tuple[str, str] | None:
    """The id and the secret of a key; None for what has not the form of one."""
    key_id, _, secret = bearer.removeprefix(PREFIX).rpartition("_")
    return (key_id, secret) if bearer.startswith(PREFIX) and key_id and secret else None


def _scrypt(secret: str, salt: bytes, cost: int, block: int, parallel: int, size: int) -> bytes:
    return hashlib.scrypt(
        secret.encode(), salt=salt, n=cost, r=block, p=parallel, dklen=size, maxmem=2 * _MAX_MEMORY_BYTES
    )


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
