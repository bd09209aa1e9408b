"""API keys of the policy file: their form, their slow hashes, and their verification."""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from cachetools import LRUCache, TTLCache
from pydantic import SecretStr

from outlast.api.access.policy.contracts import KeyEntry
from outlast.api.errors import KeyChecksBusy, Unauthenticated

PREFIX = "ol_"
_SECRET_BYTES = 24
_COST, _BLOCK, _PARALLEL = 2**14, 8, 1
"""scrypt parameters of new keys: 16 MiB and about 50 ms (RFC 7914)."""
_MAX_MEMORY_BYTES = 64 * 1024 * 1024
_HASHES_AT_ONCE = 2
_WAITING_PER_KEY = 20
"""Secrets. A burst of requests with one secret waits for one hash, however many they are."""
_VERIFIED_SECONDS = 600
_REFUSED_SECONDS = 600
_REMEMBERED = 10_000


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
            raise ValueError("is not a scrypt hash with a power of two as N and at most 64 MiB of memory")
        return found

    @classmethod
    def of(cls, secret: str) -> Self:
        """Hash a secret with a new salt."""
        salt = secrets.token_bytes(16)
        return cls(_COST, _BLOCK, _PARALLEL, salt, _scrypt(secret, salt, _COST, _BLOCK, _PARALLEL, 32))

    def __str__(self) -> str:
        parts = (self.cost, self.block, self.parallel, _encoded(self.salt), _encoded(self.digest))
        return "$".join(("scrypt", *map(str, parts)))

    def fits(self, secret: str) -> bool:
        """Compare with the hash of `secret`. Slow on purpose: call it off the event loop."""
        found = _scrypt(secret, self.salt, self.cost, self.block, self.parallel, len(self.digest))
        return hmac.compare_digest(found, self.digest)

    def _is_bounded(self) -> bool:
        power_of_two = self.cost > 1 and self.cost & (self.cost - 1) == 0
        sizes = 1 <= self.block <= 64 and 1 <= self.parallel <= 4 and len(self.salt) >= 8 and len(self.digest) >= 16
        return power_of_two and sizes and 128 * self.cost * self.block <= _MAX_MEMORY_BYTES


def new_key(key_id: str) -> tuple[SecretStr, KeyHash]:
    """Return a new key with this id, and the hash that proves it."""
    secret = secrets.token_hex(_SECRET_BYTES)
    return SecretStr(f"{PREFIX}{key_id}_{secret}"), KeyHash.of(secret)


def split_key(bearer: str) -> tuple[str, str] | None:
    """Return the id and the secret of a key; None for what has not the form of one."""
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


class KeyVerifier:
    """Verification of secrets against slow hashes.

    Results are cached while they are in use, by a digest whose key exists only in this process: wrong secrets too, so
    that a client with an old key costs one hash. One hash at a time runs for each key, and two in all, outside the
    event loop, so that guesses at one key delay no other caller.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._verified = TTLCache[bytes, bool](_REMEMBERED, _VERIFIED_SECONDS)
        self._refused = TTLCache[bytes, bool](_REMEMBERED, _REFUSED_SECONDS)
        self._pool = ThreadPoolExecutor(_HASHES_AT_ONCE, thread_name_prefix="key-hashes")
        self._turns = LRUCache[str, asyncio.Lock](_REMEMBERED)
        self._waiting: defaultdict[str, Counter[bytes]] = defaultdict(Counter)

    def forget(self) -> None:
        """Verify every secret again: the policy has changed."""
        self._verified.clear()
        self._refused.clear()

    async def verified(self, bearer: str, keys: Mapping[str, KeyEntry]) -> KeyEntry:
        """Return the entry in `keys` whose key this is. Raises `Unauthenticated` and `KeyChecksBusy`."""
        parts = split_key(bearer)
        entry = keys.get(parts[0]) if parts else None
        if parts is None or entry is None:
            raise Unauthenticated("This API key is not known, or was revoked.")
        if entry.is_expired():
            raise Unauthenticated(f"The API key {entry.id} has expired. Ask the operator for a new one.")
        # The hash is part of what is remembered: a key that was made again under the same id is another one.
        digest = hmac.digest(self._secret, f"{entry.hash}\0{parts[1]}".encode(), "sha256")
        if digest not in self._verified:
            await self._verify(entry, parts[1], digest)
        self._verified[digest] = True  # from now on it is remembered for the whole time again
        return entry

    async def _verify(self, entry: KeyEntry, secret: str, digest: bytes) -> None:
        waiting = self._waiting[entry.id]
        if digest not in waiting and len(waiting) >= _WAITING_PER_KEY:
            raise KeyChecksBusy(f"Too many secrets of the key {entry.id} wait to be checked. Send yours again.")
        waiting[digest] += 1
        try:
            async with self._turns.setdefault(entry.id, asyncio.Lock()):
                if digest in self._verified:
                    return
                if digest not in self._refused and await self._fits(entry, secret):
                    return
        finally:
            waiting[digest] -= 1
            if not waiting[digest]:
                del waiting[digest]
            if not waiting:
                self._waiting.pop(entry.id, None)
        self._refused[digest] = True
        raise Unauthenticated("This API key is not known, or was revoked.")

    async def _fits(self, entry: KeyEntry, secret: str) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, KeyHash.parse(entry.hash).fits, secret)
