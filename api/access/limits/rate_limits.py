"""Rate limits: the token bucket, and limits on anonymous requests and wrong credentials of client addresses."""

import hashlib
import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any

from cachetools import LRUCache, TTLCache

from outlast.api.errors import TooManyRequests, Unauthenticated
from outlast.api.metrics import LIMITED

UNKNOWN = "unknown"
_IPV6_NETWORK_BITS = 64
"""A host with an IPv6 address has its whole network of 64 bits (RFC 4291, section 2.5.4)."""
Clock = Callable[[], float]
"""Seconds, as `time.monotonic` counts them."""
_MAX_NETWORKS = 10_000
_BURST_SECONDS = 5
"""Burst of a silent address, as seconds of its rate."""
_REFUSALS_PER_SECOND = 100
"""Rate of refusals to one address, as they cost time, too: 100 connections get one per second each."""
_WRONG_SECONDS = 60
_MAX_TOKENS = 10_000
_MAX_ADDRESSES = 10_000
WRONG_TOKEN = "The bearer token is neither a known API key nor a valid Apify token."  # noqa: S105  # a message


class TokenBucket:
    """Token bucket with `rate` tokens per second up to `burst`; each use passes both, as a policy may change them.

    Rate limit libraries count in time windows; none separates rate and burst.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._spent = 0.0
        self._at = clock()

    def take(self, rate: float, burst: int) -> float:
        """Take a token. Returns 0, or the seconds until the next token."""
        self._refill(rate)
        if self._spent + 1 > burst:
            return (self._spent + 1 - burst) / rate
        self._spent += 1
        return 0

    def give_back(self) -> None:
        """Undo one `take`."""
        self._spent = max(0.0, self._spent - 1)

    def left(self, rate: float, burst: int) -> int:
        """Tokens that can be taken now."""
        self._refill(rate)
        return max(0, math.floor(burst - self._spent))

    def seconds_until_full(self, rate: float) -> float:
        """Return the seconds until an unused bucket is full."""
        self._refill(rate)
        return self._spent / rate

    def share(self, rate: float, burst: int) -> float:
        """Return the part of the burst that is spent, 0 to 1."""
        self._refill(rate)
        return min(1.0, self._spent / burst)

    def _refill(self, rate: float) -> None:
        now = self._clock()
        self._spent = max(0.0, self._spent - (now - self._at) * rate)
        self._at = now


def address_of(scope: MutableMapping[str, Any]) -> str:
    """Return the client's address in an ASGI scope; `unknown` for an invalid one from a proxy."""
    client: tuple[str, int] | None = scope.get("client")
    parsed = _parsed(client[0]) if client else None
    return str(parsed) if parsed is not None else UNKNOWN


def network_of(address: str) -> str:
    """Return the network of one client: an IPv4 address, or an IPv6 network of 64 bits."""
    parsed = _parsed(address)
    if parsed is None or parsed.version == 4:
        return UNKNOWN if parsed is None else str(parsed)
    return str(ipaddress.ip_network((parsed, _IPV6_NETWORK_BITS), strict=False))


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed


class AnonymousRequests:
    """Limit on requests without credentials by address or IPv6 network of 64 bits."""

    def __init__(self, per_second: float, clock: Clock = time.monotonic) -> None:
        """Each address may send `per_second` over longer times."""
        self._rate = per_second
        self._burst = max(1, round(per_second * _BURST_SECONDS))
        self._clock = clock
        self._buckets: LRUCache[str, TokenBucket] = LRUCache(_MAX_NETWORKS)
        self._held = Counter[str]()

    def take(self, address: str) -> float:
        """Count a request. Returns 0, or the seconds until the address may send the next one."""
        bucket = self._buckets.setdefault(network_of(address), TokenBucket(self._clock))
        return bucket.take(self._rate, self._burst)

    @contextmanager
    def held(self, address: str) -> Generator[float]:
        """Yield the seconds to delay an answer to the address: the more answers wait, the longer."""
        network = network_of(address)
        self._held[network] += 1
        try:
            yield self._held[network] / _REFUSALS_PER_SECOND
        finally:
            self._held[network] -= 1
            if not self._held[network]:
                del self._held[network]


class FailedCredentials:
    """Limit on guesses, which would become look-ups on the platform. Tokens that were valid before are exempt."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._wrong: TTLCache[str, str] = TTLCache(_MAX_TOKENS, _WRONG_SECONDS, timer=clock)
        self._good: LRUCache[str, bool] = LRUCache(_MAX_TOKENS)
        self._tries: LRUCache[str, TokenBucket] = LRUCache(_MAX_ADDRESSES)

    def begin(self, digest: str, address: str | None) -> None:
        """Count an attempt with a token that is not cached; `address` is None over stdio.

        Raises `Unauthenticated` for a token that was wrong a moment ago, and `TooManyRequests` after too many attempts.
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
                "Too many wrong bearer tokens came from your address. Tokens that were valid before still work; "
                "try a new one after the time in `Retry-After`.",
                retry_after_seconds=pause,
            )

    def was_good(self, digest: str, address: str | None) -> None:
        """Record a valid token: the attempt does not count."""
        if digest not in self._good:
            self._good[digest] = True
            self.is_unknown(address)

    def was_wrong(self, digest: str, reason: str = WRONG_TOKEN) -> None:
        """Record a refused token: the attempt counts."""
        self._wrong[digest] = reason
        self._good.pop(digest, None)

    def is_unknown(self, address: str | None) -> None:
        """Do not count an attempt whose token could not be checked."""
        if address is not None:
            self._tries_of(address).give_back()

    def _tries_of(self, address: str) -> TokenBucket:
        return self._tries.setdefault(network_of(address), TokenBucket(self._clock))


def digest_of(token: str) -> str:
    """Digest a token, for caches in memory."""
    return hashlib.sha256(token.encode()).hexdigest()
