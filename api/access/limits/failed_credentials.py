"""Wrong credentials: each is looked up once, and each address has a limited number of tries."""

import hashlib
import time

from cachetools import LRUCache, TTLCache

from outlast.api.access.limits.addresses import network_of
from outlast.api.access.limits.token_bucket import Clock, TokenBucket
from outlast.api.errors import TooManyRequests, Unauthenticated
from outlast.api.metrics import LIMITED

_WRONG_SECONDS = 60
_MAX_TOKENS = 10_000
_MAX_ADDRESSES = 10_000

WRONG_TOKEN = "The bearer token is neither a known API key nor a valid Apify token."  # noqa: S105  # a message


class FailedCredentials:
    """Keeps guesses from becoming look-ups on the platform. A token that was good before is never held back."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        """Each address may try `per_minute` tokens that turn out wrong."""
        self._per_minute = per_minute
        self._clock = clock
        self._wrong: TTLCache[str, str] = TTLCache(_MAX_TOKENS, _WRONG_SECONDS, timer=clock)
        self._good: LRUCache[str, bool] = LRUCache(_MAX_TOKENS)
        self._tries: LRUCache[str, TokenBucket] = LRUCache(_MAX_ADDRESSES)

    def begin(self, digest: str, address: str | None) -> None:
        """A token that is not in memory is about to be checked. `address` is None where there is none, as over stdio.

        Raises `Unauthenticated` for a token that was wrong a moment ago, and `TooManyRequests` for an address that has
        tried too many.
        """
        reason = self._wrong.get(digest)
        if reason is not None:
            error = Unauthenticated(reason)
            error.is_repeated = True
            raise error
        if address is None or digest in self._good:
            return
        pause = self._tries_of(address).take(self._per_minute / 60, self._per_minute)
        if pause > 0:
            LIMITED.labels("failed_credentials").inc()
            raise TooManyRequests(
                "Too many wrong bearer tokens came from your address. Tokens that were good before go on working; "
                "try a new one after the time in `Retry-After`.",
                retry_after_seconds=pause,
            )

    def was_good(self, digest: str, address: str | None) -> None:
        """The token belongs to somebody: the try does not count."""
        if digest not in self._good:
            self._good[digest] = True
            self.is_unknown(address)

    def was_wrong(self, digest: str, reason: str = WRONG_TOKEN) -> None:
        """The token is refused for `reason`: the try counts."""
        self._wrong[digest] = reason
        self._good.pop(digest, None)

    def is_unknown(self, address: str | None) -> None:
        """The platform did not say whose token it is: the try does not count."""
        if address is not None:
            self._tries_of(address).give_back()

    def _tries_of(self, address: str) -> TokenBucket:
        network = network_of(address)
        bucket = self._tries.get(network)
        if bucket is None:
            bucket = self._tries[network] = TokenBucket(self._clock)
        return bucket


def digest_of(token: str) -> str:
    """The digest that stands for a token in memory."""
    return hashlib.sha256(token.encode()).hexdigest()
