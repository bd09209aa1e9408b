"""Limits requests from addresses that send no valid credential."""

import asyncio
from contextlib import suppress

from starlette.types import Receive

from outlast.api.access.limits.rate_limits import AnonymousRequests
from outlast.api.errors import TooManyRequests
from outlast.api.http.exchange import Exchange
from outlast.api.metrics import LIMITED

_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""An orchestrator whose probe is refused would kill the process."""
_PROBE_SECONDS = 0.5
"""Longest delay of a probe. Kubernetes gives up after a second."""


class AnonymousLimit:
    """Delays the responses to an address that sends too many requests, and closes the connection after each.

    Without this, requests that are sent without waiting for responses would take all the time of the process.
    """

    def __init__(self, requests_per_second: float) -> None:
        """Answer `requests_per_second` of each address without delay."""
        self._requests = AnonymousRequests(requests_per_second)

    async def admits(self, exchange: Exchange, *, is_refused: bool = False) -> bool:
        """Return True if the request is to be answered now; its response may be the last one of its connection.

        Beyond the limit, the request is answered with 429 here, late. Probes, and requests that are refused anyway
        (`is_refused`), are only delayed: their own responses cost no more.
        """
        pause = self._requests.take(exchange.address)
        if not pause:
            return True
        LIMITED.labels("anonymous_requests").inc()
        is_probe = exchange.path in _PROBES and exchange.is_safe
        with self._requests.held(exchange.address) as seconds:
            if await _has_left(exchange.receive, min(seconds, _PROBE_SECONDS) if is_probe else seconds):
                return False
        exchange.closes_connection = True
        if is_refused or is_probe:
            return True
        await exchange.refuse(
            TooManyRequests(
                "Your address has sent too many requests without a valid credential. Repeat this one after the time in "
                "`Retry-After`, or send a credential: requests with one are not delayed.",
                retry_after_seconds=pause,
            )
        )
        return False


async def _has_left(receive: Receive, seconds: float) -> bool:
    """Wait `seconds`; return True as soon as the client disconnects."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
            return True
    return False
