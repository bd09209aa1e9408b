"""Verifies the API keys of the policy file, without a stall."""

import asyncio
import hmac
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from cachetools import LRUCache, TTLCache

from outlast.api.access.key_hashes import KeyHash, split_key
from outlast.api.access.policy.contracts import KeyEntry
from outlast.api.errors import KeyChecksBusy, Unauthenticated

_HASHES_AT_ONCE = 2
_WAITING_PER_KEY = 20
"""Secrets. A burst of requests with one secret waits for one hash, however many they are."""
_VERIFIED_SECONDS = 600
_REFUSED_SECONDS = 600
_REMEMBERED = 10_000


class KeyVerifier:
    """Verifies secrets against slow hashes.

    A verified secret is remembered while it is in use, by a digest whose key exists only in this process, and a wrong
    one as well, so that a client with an old key costs one hash. One hash at a time runs for each key, and two in all,
    outside the event loop: guesses at one key delay no other caller.
    """

    def __init__(self) -> None:
        """Nothing is verified yet."""
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
        """The entry in `keys` whose key this is. Raises `Unauthenticated` and `KeyChecksBusy`."""
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
