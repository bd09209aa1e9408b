"""Requests for which no credential speaks: how many an address may send, and how slowly further ones are answered."""

import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from cachetools import LRUCache

from outlast.api.access.limits.addresses import network_of
from outlast.api.access.limits.token_bucket import Clock, TokenBucket

_MAX_NETWORKS = 10_000
_BURST_SECONDS = 5
"""For so long an address that was silent may send at once what it may send over time."""
_REFUSALS_PER_SECOND = 100
"""Refusing costs time as well, so refusals to one address are spread: 100 connections get one a second each."""


class AnonymousRequests:
    """Counts them by address, an IPv6 network of 64 bits counting as one."""

    def __init__(self, per_second: float, clock: Clock = time.monotonic) -> None:
        """Each address may send `per_second` over longer times."""
        self._rate = per_second
        self._burst = max(1, round(per_second * _BURST_SECONDS))
        self._clock = clock
        self._buckets: LRUCache[str, TokenBucket] = LRUCache(_MAX_NETWORKS)
        self._held = Counter[str]()

    def take(self, address: str) -> float:
        """Count a request. Returns 0, or the seconds until the address may send one."""
        network = network_of(address)
        bucket = self._buckets.get(network)
        if bucket is None:
            bucket = self._buckets[network] = TokenBucket(self._clock)
        return bucket.take(self._rate, self._burst)

    @contextmanager
    def held(self, address: str) -> Generator[float]:
        """Gives the seconds for which an answer to the address is held back: the more of them are held, the longer."""
        network = network_of(address)
        self._held[network] += 1
        try:
            yield self._held[network] / _REFUSALS_PER_SECOND
        finally:
            self._held[network] -= 1
            if not self._held[network]:
                del self._held[network]
