"""This machine's clock, compared with those that it has to agree with."""

import time
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

import httpx

from outlast.api.cli.checks.check import Check, fail, ok, skip, warn

_NAME = "Clock"
_TIMEOUT_SECONDS = 5
_NOTICEABLE_SECONDS = 5
_TOO_FAR_SECONDS = 120
"""A run whose start was not answered is looked for in the time since, less two minutes (docs/decisions/0002)."""
_ADVICE = "Set the clock by NTP (chrony, systemd-timesyncd) on the machine that is wrong."


async def check_clock(servers: Mapping[str, str]) -> Check:
    """This machine agrees with the servers, by their names and addresses, on what time it is.

    Servers tell it in whole seconds (the header `Date`). One that does not answer is a row of its own elsewhere.
    """
    off = {name: skew for name, url in servers.items() if (skew := await _skew(url)) is not None}
    if not off:
        return skip(_NAME, "nobody answers to compare it with")
    name, worst = max(off.items(), key=lambda one: abs(one[1]))
    told = f"{abs(worst):.0f} s {'behind' if worst > 0 else 'ahead of'} that of {name}"
    if abs(worst) > _TOO_FAR_SECONDS:
        return fail(_NAME, told, f"A run whose start was not answered may be started again. {_ADVICE}")
    if abs(worst) > _NOTICEABLE_SECONDS:
        return warn(_NAME, told, f"Deadlines, keys and access tokens end early or late. {_ADVICE}")
    return ok(_NAME, f"as that of {', '.join(off)}")


async def _skew(url: str) -> float | None:
    """By how many seconds the server's clock is ahead of this one; None when it does not say."""
    loopback = httpx.URL(url).host in ("127.0.0.1", "::1", "localhost")
    try:
        async with httpx.AsyncClient(trust_env=not loopback, timeout=_TIMEOUT_SECONDS) as http:
            asked = time.time()
            answer = await http.head(url)
            between = (asked + time.time()) / 2
        told: datetime = parsedate_to_datetime(answer.headers["Date"])
    except (httpx.HTTPError, KeyError, ValueError):
        return None
    # The header leaves parts of a second out: half a second on average.
    return told.timestamp() + 0.5 - between
