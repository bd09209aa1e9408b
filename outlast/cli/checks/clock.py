"""This machine's clock, compared with those that it has to agree with."""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

import httpx

from outlast.cli.checks.check import Check, fail, ok, skip, warn

Clock = Callable[[], Awaitable[datetime | None]]
"""Asks a server what time it is, in whole seconds; gives None where it does not answer or does not say."""

_NAME = "Clock"
_TIMEOUT_SECONDS = 5
_NOTICEABLE_SECONDS = 5
_TOO_FAR_SECONDS = 120
"""A run whose start was not answered is looked for in the time since, less two minutes (docs/decisions/0002)."""
_ADVICE = "Set the clock by NTP (chrony, systemd-timesyncd) on the machine that is wrong."


async def check_clock(clocks: Mapping[str, Clock]) -> Check:
    """This machine agrees with these servers, by their names, on what time it is.

    A server that does not answer is a row of its own elsewhere.
    """
    off = {name: skew for name, clock in clocks.items() if (skew := await _skew(clock)) is not None}
    if not off:
        return skip(_NAME, "nobody answers to compare it with")
    name, worst = max(off.items(), key=lambda one: abs(one[1]))
    offset = f"{abs(worst):.0f} s {'behind' if worst > 0 else 'ahead of'} that of {name}"
    if abs(worst) > _TOO_FAR_SECONDS:
        return fail(_NAME, offset, f"A run whose start was not answered may be started again. {_ADVICE}")
    if abs(worst) > _NOTICEABLE_SECONDS:
        return warn(_NAME, offset, f"Deadlines, keys and access tokens end early or late. {_ADVICE}")
    return ok(_NAME, f"as that of {', '.join(off)}")


async def clock_at(url: str) -> datetime | None:
    """The time of the HTTP server at `url` (the header `Date`, RFC 9110 section 6.6.1)."""
    loopback = httpx.URL(url).host in ("127.0.0.1", "::1", "localhost")
    try:
        async with httpx.AsyncClient(trust_env=not loopback, timeout=_TIMEOUT_SECONDS) as http:
            answer = await http.head(url)
        return parsedate_to_datetime(answer.headers["Date"])
    except (httpx.HTTPError, KeyError, ValueError):
        return None


async def _skew(clock: Clock) -> float | None:
    """By how many seconds that clock is ahead of this one; None when it does not say."""
    asked = time.time()
    server_time = await clock()
    between = (asked + time.time()) / 2
    # Fractions of a second are left out: half a second on average.
    return None if server_time is None else server_time.timestamp() + 0.5 - between
