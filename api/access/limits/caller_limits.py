"""Limits of each caller: requests over time, and concurrent streams, waits, queries, starts and lists."""

import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Literal

from outlast.api.access.limits.caller_slots import CallerSlots, ServedCallers
from outlast.api.access.limits.rate_limits import Clock, TokenBucket
from outlast.api.access.limits.unread_bytes import UnreadBytes
from outlast.api.access.policy.contracts import Limits
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import TooManyRequests
from outlast.api.metrics import LIMIT_NEAR, LIMIT_USED, LIMITED

_NEAR = 0.5
_MAX_CALLERS = 20
_NAMED_CALLERS = ("key:", "local")
Used = Mapping[str, Mapping[str, float]]
"""For each caller, the share of each limit that it uses, 0 to 1."""
Slot = Literal["open_streams", "waiting_requests", "concurrent_queries"]
AwaitedSlot = Literal["concurrent_starts", "concurrent_lists"]
_IDLE_CALLERS = 1_000
"""From so many callers on, those that have not called for a while are forgotten."""
_SLOT_RETRY_SECONDS = 2
_AWAITED_SECONDS = 30.0
_AWAITED_RETRY_SECONDS = 10
_WORDS: dict[Slot, str] = {
    "open_streams": "streams are open",
    "waiting_requests": "requests wait for their answers",
    "concurrent_queries": "queries of stored outputs run",
}
_AWAITED: dict[AwaitedSlot, str] = {
    "concurrent_starts": "tasks are started",
    "concurrent_lists": "lists of tasks are read",
}


@dataclass
class _Usage:
    requests: TokenBucket
    held: Counter[Slot] = field(default_factory=Counter[Slot])


class CallerLimits:
    """Limits of the policy on the requests of each caller to this process."""

    def __init__(self, policy: PolicySource, clock: Clock = time.monotonic) -> None:
        self._policy = policy
        self._clock = clock
        self._usages: dict[str, _Usage] = {}
        self.served = ServedCallers()
        self.unread = UnreadBytes(policy)
        self._awaited: dict[AwaitedSlot, CallerSlots] = {name: CallerSlots(self.served) for name in _AWAITED}

    def take_request(self, caller_id: str) -> None:
        """Count one request. Raises `TooManyRequests`."""
        self.served.note(caller_id)
        limits = self._limits(caller_id)
        pause = self._usage(caller_id).requests.take(limits.requests_per_second, limits.request_burst)
        if pause > 0:
            LIMITED.labels("requests_per_second").inc()
            raise TooManyRequests(
                f"You may send {limits.requests_per_second:g} requests per second, and {limits.request_burst} at once "
                "(`requests_per_second` and `request_burst` in the operator's policy). Nothing was started: repeat "
                "the request after the time in `Retry-After`.",
                retry_after_seconds=pause,
            )
        self._refuse_while_unread(caller_id)

    def _refuse_while_unread(self, caller_id: str) -> None:
        room = self.unread.room_of(caller_id)
        if room.unread_answers_bytes < room.limit_bytes:
            return
        LIMITED.labels("unread_bytes").inc()
        raise TooManyRequests(
            f"Your clients have not read {room.unread_answers_bytes:,} bytes of responses, and at most "
            f"{room.limit_bytes:,} may wait for them (`unread_bytes` in the operator's policy). Nothing was started: "
            "read them, or close their connections, and repeat the request.",
            retry_after_seconds=_SLOT_RETRY_SECONDS,
        )

    @contextmanager
    def slot(self, caller_id: str, slot: Slot) -> Generator[None]:
        """Hold one of the caller's slots during the block. Raises `TooManyRequests` when all are taken."""
        most: int = getattr(self._limits(caller_id), slot)
        held = self._usage(caller_id).held
        if held[slot] >= most:
            LIMITED.labels(slot).inc()
            raise TooManyRequests(
                f"{held[slot]} of your {_WORDS[slot]}, the maximum at once (`{slot}` in the operator's policy). "
                "Nothing was started: repeat the request when one of them has ended.",
                retry_after_seconds=_SLOT_RETRY_SECONDS,
            )
        held[slot] += 1
        try:
            yield
        finally:
            held[slot] -= 1

    @asynccontextmanager
    async def awaited_slot(self, caller_id: str, name: AwaitedSlot) -> AsyncGenerator[None]:
        """Wait for one of the caller's slots, and hold it during the block. Raises `TooManyRequests` after 30 s."""
        most: int = getattr(self._limits(caller_id), name)
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(
                    self._awaited[name].slot(caller_id, at_once=most, wait_seconds=_AWAITED_SECONDS)
                )
            except TimeoutError:
                LIMITED.labels(name).inc()
                raise TooManyRequests(
                    f"Your {_AWAITED[name]} {most} at a time (`{name}` in the operator's policy), and so many "
                    f"wait that this one was not begun within {_AWAITED_SECONDS:g} seconds. Nothing was started: "
                    "repeat the request after the time in `Retry-After`.",
                    retry_after_seconds=_AWAITED_RETRY_SECONDS,
                ) from None
            yield

    def headers(self, caller_id: str) -> dict[str, str]:
        """Return `RateLimit` and `RateLimit-Policy` for the caller (draft-ietf-httpapi-ratelimit-headers-10)."""
        limits = self._limits(caller_id)
        rate, burst = limits.requests_per_second, limits.request_burst
        bucket = self._usage(caller_id).requests
        return {
            "RateLimit-Policy": f'"requests";q={burst};w={max(1, math.ceil(burst / rate))}',
            "RateLimit": f'"requests";r={bucket.left(rate, burst)};t={math.ceil(bucket.seconds_until_full(rate))}',
        }

    def held(self, caller_id: str, slot: Slot) -> int:
        """Count the slots that the caller holds."""
        usage = self._usages.get(caller_id)
        return usage.held[slot] if usage is not None else 0

    def used(self) -> Mapping[str, Mapping[str, float]]:
        """For each caller, the share of each limit that it uses now."""
        used: dict[str, Mapping[str, float]] = {}
        for caller_id, usage in self._usages.items():
            limits = self._limits(caller_id)
            requests = usage.requests.share(limits.requests_per_second, limits.request_burst)
            slots = {slot: usage.held[slot] / getattr(limits, slot) for slot in _WORDS}
            used[caller_id] = {
                "requests_per_second": requests,
                **slots,
                "unread_bytes": self.unread.share_of(caller_id),
            }
        return used

    def _limits(self, caller_id: str) -> Limits:
        return self._policy.of(caller_id).limits

    def _usage(self, caller_id: str) -> _Usage:
        usage = self._usages.get(caller_id)
        if usage is None:
            if len(self._usages) >= _IDLE_CALLERS:
                self._forget_idle()
            usage = self._usages[caller_id] = _Usage(TokenBucket(self._clock))
        return usage

    def _forget_idle(self) -> None:
        for caller_id, usage in list(self._usages.items()):
            rate = self._limits(caller_id).requests_per_second
            if usage.requests.seconds_until_full(rate) == 0 and not usage.held.total():
                del self._usages[caller_id]


def caller_label(caller_id: str) -> str:
    """Return the caller as metrics show it: those that operators have named by itself, all others as `other`."""
    return caller_id if caller_id.startswith(_NAMED_CALLERS) else "other"


def show_use(*parts: Used) -> None:
    """Set the metrics of limits to `parts`, each of which is about other limits."""
    by_limit: dict[str, dict[str, float]] = {}
    for caller_id, used in (entry for part in parts for entry in part.items()):
        label = caller_label(caller_id)
        for limit, share in used.items():
            shares = by_limit.setdefault(limit, {})
            shares[label] = max(shares.get(label, 0.0), share)
    LIMIT_NEAR.clear()
    for limit, shares in by_limit.items():
        LIMIT_USED.labels(limit).set(max(shares.values()))
        for label, share in nlargest(_MAX_CALLERS, shares.items(), key=lambda entry: entry[1]):
            if share >= _NEAR:
                LIMIT_NEAR.labels(limit, label).set(share)
