"""Limits of each caller: requests over time, concurrent work, slots for large bodies, and bytes held for slow readers.

Parsing, checking and encrypting a large body can block the event loop for 200 ms. So the large bodies of one caller are
processed one after another, with pauses while others are served. A client that does not read its responses would fill
the memory: streams take room before they read, and wait if there is none.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Literal
from weakref import WeakValueDictionary

from outlast.api.access.limits.rate_limits import Clock, TokenBucket
from outlast.api.access.policy.contracts import Limits
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import TooManyRequests
from outlast.api.metrics import LIMIT_NEAR, LIMIT_USED, LIMITED

_SMALL_BYTES = 16 * 1024
"""Smaller messages are not counted."""
_UNREAD_AFTER_SECONDS = 1.0


class UnreadBytes:
    """The budgets of all callers in this process."""

    def __init__(self, policy: PolicySource) -> None:
        self._policy = policy
        self._rooms: WeakValueDictionary[str, CallerRoom] = WeakValueDictionary()

    def room_of(self, caller_id: str) -> "CallerRoom":
        """Return the room of a caller: the same object while it is in use."""
        return self._rooms.setdefault(caller_id, CallerRoom(self._policy, caller_id))

    def share_of(self, caller_id: str) -> float:
        """Return the used share of a caller's budget."""
        room = self._rooms.get(caller_id)
        return 0.0 if room is None else room.used_bytes / room.limit_bytes


class CallerRoom:
    """The room of one caller, as readers of outputs and datasets take it (`activities.outputs.store.room.Room`)."""

    def __init__(self, policy: PolicySource, caller_id: str) -> None:
        self._policy = policy
        self._caller_id = caller_id
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used_bytes = 0
        self.unread_answers_bytes = 0
        """Bytes of whole responses in memory that have waited for their clients for a second."""

    @property
    def limit_bytes(self) -> int:
        """The whole budget."""
        return self._policy.of(self._caller_id).limits.unread_bytes

    @property
    def is_scarce(self) -> bool:
        """See `Room`."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """True while nothing more fits."""
        return self.used_bytes >= self.limit_bytes

    @contextmanager
    def counted(self, size_bytes: int) -> Generator[None]:
        """Count a response that is in memory already, and that ends with the block. It is unread after a second."""
        if size_bytes <= _SMALL_BYTES:
            yield
            return
        unread = 0

        def has_waited() -> None:
            nonlocal unread
            unread = size_bytes
            self.unread_answers_bytes += unread

        self.used_bytes += size_bytes
        waiting = asyncio.get_running_loop().call_later(_UNREAD_AFTER_SECONDS, has_waited)
        try:
            yield
        finally:
            waiting.cancel()
            self.unread_answers_bytes -= unread
            self.add(-size_bytes)

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncGenerator["HeldRoom"]:
        """Implement `Room`, in order of arrival."""
        if self._waiting or not self._fits(size_bytes):
            await self._granted(size_bytes)
        else:
            self.used_bytes += size_bytes
        held = HeldRoom(self, size_bytes)
        try:
            yield held
        finally:
            held.holds(0)

    def add(self, size_bytes: int) -> None:
        """Change the use, and grant the waiting requests that now fit."""
        self.used_bytes += size_bytes
        while self._waiting and self._fits(self._waiting[0][0]):
            size, grant = self._waiting.popleft()
            if not grant.cancelled():
                self.used_bytes += size
                grant.set_result(None)

    def _fits(self, size_bytes: int) -> bool:
        """A size above the whole budget fits while the room is empty."""
        return self.used_bytes == 0 or self.used_bytes + size_bytes <= self.limit_bytes

    async def _granted(self, size_bytes: int) -> None:
        grant = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, grant))
        try:
            await grant
        except asyncio.CancelledError:
            is_granted = grant.done() and not grant.cancelled()
            with suppress(ValueError):
                self._waiting.remove((size_bytes, grant))
            self.add(-size_bytes if is_granted else 0)
            raise


@dataclass
class HeldRoom:
    """Room that is held, see `Held`."""

    _room: CallerRoom
    _size_bytes: int

    def holds(self, size_bytes: int) -> None:
        """See `Held`."""
        more, self._size_bytes = size_bytes - self._size_bytes, size_bytes
        self._room.add(more)


_RECENT_SECONDS = 1.0
_REST_TIMES = 2
"""Ratio of a pause to the use of the slot before it."""
_MAX_REST_SECONDS = 2.0
_MAX_SECONDS = 3.0
"""Maximum time of a use of a slot with its pause."""


class ServedCallers:
    """The callers whose requests this process has served within the last second."""

    def __init__(self) -> None:
        self._latest = ("", 0.0)
        self._before = ("", 0.0)
        """The latest request of another caller than that of the latest one."""

    def note(self, caller_id: str) -> None:
        """Record that this caller is being served."""
        if self._latest[0] != caller_id:
            self._before = self._latest
        self._latest = (caller_id, asyncio.get_running_loop().time())

    def others_than(self, caller_id: str) -> bool:
        """Check whether another caller was served within the last second."""
        other, at = self._latest if self._latest[0] != caller_id else self._before
        return other != "" and asyncio.get_running_loop().time() - at < _RECENT_SECONDS


class CallerSlots:
    """Concurrency limit for each caller in this process; further work waits in order.

    While other callers are served, a pause follows each use of a slot. A slot is released after three seconds at the
    latest, so that stalled work does not block all other work of its caller.
    """

    def __init__(self, served: ServedCallers | None = None) -> None:
        """Without `served` there are no rests."""
        self._served = served
        self._gates: WeakValueDictionary[tuple[str, int], asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def slot(
        self, caller_id: str, *, at_once: int = 1, wait_seconds: float | None = None
    ) -> AsyncGenerator[None]:
        """Wait for one of the caller's `at_once` slots, and hold it during the block. Raises `TimeoutError`."""
        # A gate lives as long as a request of the caller waits, is at work or rests: each holds a reference.
        gate = self._gates.setdefault((caller_id, at_once), asyncio.Semaphore(at_once))
        async with asyncio.timeout(wait_seconds):
            await gate.acquire()
        clock = asyncio.get_running_loop()
        began, place = clock.time(), _Place(gate)
        clock.call_later(_MAX_SECONDS, place.leave)
        try:
            yield
        finally:
            if self._served is not None and self._served.others_than(caller_id):
                clock.call_later(min(_REST_TIMES * (clock.time() - began), _MAX_REST_SECONDS), place.leave)
            else:
                place.leave()


class _Place:
    """A place at a gate."""

    def __init__(self, gate: asyncio.Semaphore) -> None:
        self._gate: asyncio.Semaphore | None = gate

    def leave(self) -> None:
        """Release the place. Does nothing the second time."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.release()


_slot: ContextVar["BodySlot | None"] = ContextVar("outlast_body_slot", default=None)


class BodySlot:
    """A slot for the work on the large body of a request. A request that waits releases it early."""

    def __init__(self, slots: CallerSlots, caller_id: str) -> None:
        self._slots = slots
        self._caller_id = caller_id
        self._ended = asyncio.Event()
        self._begun = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Wait for the slot; the code that serves the request may release it with `leave_body_slot`."""
        self._holding = asyncio.create_task(self._hold())
        await self._begun.wait()
        _slot.set(self)

    def end(self) -> None:
        """Release the slot for the caller's next large body. Does nothing the second time."""
        self._ended.set()

    async def _hold(self) -> None:
        async with self._slots.slot(self._caller_id):
            self._begun.set()
            await self._ended.wait()


def leave_body_slot() -> None:
    """Release the body slot of the current request, which only waits from here on."""
    slot = _slot.get()
    if slot is not None:
        slot.end()


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
                    f"Your {_AWAITED[name]} {most} at a time (`{name}` in the operator's policy), and too many wait: "
                    f"this one did not start within {_AWAITED_SECONDS:g} seconds. Nothing was started: "
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
