"""The keys of an issuer, remembered: known keys cost no request, and forged key ids cost the issuer few."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from jwt import PyJWK

from outlast.api.access.limits.token_bucket import Clock, TokenBucket
from outlast.api.access.oauth.issuer import IssuerError
from outlast.api.access.oauth.key_set import KeySet
from outlast.api.errors import IssuerUnavailable
from outlast.api.metrics import ISSUER_READS

log = logging.getLogger("outlast.api")

_FRESH_SECONDS = 600
_KEPT_SECONDS = 86_400
"""How long known keys go on working while the issuer does not answer."""
_READS_AT_ONCE = 5
_SECONDS_PER_READ = 10


class IssuerKeys:
    """Finds the key of a token.

    Keys are read again in the background when they are ten minutes old, and at once for a key id that is not known: the
    issuer may have a new key. Both together at most every ten seconds, but for five times in reserve. While the issuer
    does not answer, known keys go on working for a day.
    """

    def __init__(self, read: Callable[[], Awaitable[KeySet]], clock: Clock = time.monotonic) -> None:
        """Keys come from `read`, which raises `IssuerError`."""
        self._read = read
        self._clock = clock
        self._reads = TokenBucket(clock)
        self._reading: asyncio.Task[None] | None = None
        self._keys: KeySet | None = None
        self._read_at = 0.0
        self._failure: str | None = None

    async def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """The key; None when the issuer has no such key. Raises `IssuerUnavailable`."""
        age = self._clock() - self._read_at
        if self._keys is not None and age < _KEPT_SECONDS:
            found = self._keys.find(key_id, algorithm)
            if found is not None:
                if age >= _FRESH_SECONDS:
                    self._begin_reading()
                return found
        reading = self._begin_reading()
        if reading is not None:
            await asyncio.shield(reading)
        if self._failure is not None or self._keys is None:
            raise IssuerUnavailable(
                "The keys of the authorization server cannot be read now, so the token cannot be checked. "
                "Nothing was started. Send the request again."
            )
        return self._keys.find(key_id, algorithm)

    def _begin_reading(self) -> "asyncio.Task[None] | None":
        """The reading that all who wait share; None when it is too early for one."""
        if self._reading is None and self._reads.take(1 / _SECONDS_PER_READ, _READS_AT_ONCE) == 0:
            self._reading = asyncio.create_task(self._read_again())
        return self._reading

    async def _read_again(self) -> None:
        try:
            self._keys = await self._read()
        except IssuerError as error:
            ISSUER_READS.labels("error").inc()
            self._failure = str(error)
            log.warning("The keys of the authorization server cannot be read: %s", error)
        else:
            ISSUER_READS.labels("ok").inc()
            self._read_at, self._failure = self._clock(), None
        finally:
            self._reading = None
