"""The rules of a queue of deliveries. Pure, and reads no clock. Each receiver has a circuit breaker, which opens after
some failed events in a row or a requested pause; then one probe follows each growing pause, and the first success
closes it. An event that fails although others are delivered gets separate pauses.
"""

import heapq
from collections.abc import Iterable
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from outlast.activities.webhooks import contracts as webhooks

MAX_PAUSE = timedelta(hours=6)
MAX_PROBE_PAUSE = timedelta(hours=1)
"""The longest pause before the next probe of a receiver that fails: one probe, however many events wait."""
_GROWTH = 2
"""Each pause is so much longer than all the time before it: 5, 10, 30, 90 seconds and so on, up to six hours."""


def pause_after(
    elapsed: timedelta, *, first: timedelta, give_up: timedelta, asked: timedelta | None = None, luck: float = 0.5
) -> timedelta | None:
    """Return the pause before the next attempt, `elapsed` after the first one; None when the last attempt was made. The
    receiver may have `asked` for a longer one. `luck` between 0 and 1 spreads attempts by a tenth either way, so that
    those to a receiver that was away do not all come at once.
    """
    left = give_up - elapsed
    if left <= timedelta(0):
        return None
    pause = min(max(first, elapsed * _GROWTH, asked or timedelta(0)), MAX_PAUSE)
    # An attempt shortly after the end of the time is still the last one.
    return min(pause * (0.9 + 0.2 * luck), left + first)


def probe_pause(
    failing_for: timedelta, *, first: timedelta, left: timedelta | None, asked: timedelta | None, luck: float = 0.5
) -> timedelta:
    """The pause before the next probe of a receiver that has been failing for some time. `left` is the time until the
    first waiting event is given up: it gets a last attempt then, but probes do not become more than ten times as
    frequent. `asked` and `luck` as for `pause_after`.
    """
    pause = min(max(first, failing_for * _GROWTH), MAX_PROBE_PAUSE) * (0.9 + 0.2 * luck)
    if left is not None:
        pause = min(pause, max(left + first, pause / 10))
    return pause if asked is None else max(pause, min(asked, MAX_PAUSE))


OPENS_AFTER = 5
"""Events that fail in a row before the breaker opens."""
ROUND_SIZE = 200
"""Deliveries of one round at most."""
MAX_WIDTH = 8
"""Attempts to one receiver at the same time, while more events arrive than are delivered one after the other."""
PROBE_AFTER_ARRIVAL = timedelta(minutes=1)
"""A new event brings the next probe forward to this time after the one before."""
_TRIED_OFTEN = 3
"""Probes with the oldest event, after which each probe tries another one as well: the event may be the reason."""


class _Mutable(BaseModel):
    model_config = ConfigDict(extra="ignore", validate_assignment=False)


class WaitingDelivery(_Mutable):
    """One event that waits."""

    event_at: datetime
    since: datetime
    attempts: int = 0
    is_test: bool = False
    outlived_failure: bool = False
    """It has failed, and others were delivered afterwards."""
    due: datetime | None = None
    """Its own next attempt, for one that is refused for its own sake."""


class Ending(_Mutable):
    """Deliveries that end without an attempt."""

    deliveries: list[str]
    settled: webhooks.Settled


class Receiver(_Mutable):
    """The deliveries that wait for one receiver, and its circuit breaker."""

    waiting: dict[str, WaitingDelivery] = Field(default_factory=dict[str, WaitingDelivery])
    failing: set[str] = Field(default_factory=set[str])
    """Events whose latest attempts failed since the last one that was delivered."""
    refused: set[str] = Field(default_factory=set[str])
    """Events that are refused for their own sake."""
    endings: list[Ending] = Field(default_factory=list[Ending])
    is_open: bool = False
    is_asked: bool = False
    """The receiver asked for the pause."""
    is_draining: bool = False
    """Events are delivered in order, and new ones wait behind them."""
    failing_since: datetime | None = None
    tried_at: datetime | None = None
    retry_at: datetime | None = None
    message: str | None = None
    width: int = 1
    began_with: int = 0
    """Events that waited when the latest round began."""
    first_pause_seconds: float = 0
    give_up_seconds: float = 0
    """The times of the worker that added a delivery last."""

    @property
    def holds(self) -> bool:
        """True if new events wait, too."""
        return self.is_open or self.is_draining

    @property
    def is_empty(self) -> bool:
        """True if nothing is left to do."""
        return not self.waiting and not self.endings

    def add(self, request: webhooks.EnqueueInput, luck: float) -> None:
        """Add a delivery, or note another failure of one that waits already."""
        self.first_pause_seconds, self.give_up_seconds = request.first_pause_seconds, request.give_up_seconds
        self.waiting.setdefault(
            request.delivery_id,
            WaitingDelivery(event_at=request.event_at, since=request.since, is_test=request.is_test),
        )
        if request.failure is not None:
            self._failed(request.delivery_id, request.failure, request.now, luck)
            return
        self.is_draining = self.is_draining or not request.is_behind
        if self.retry_at is not None and not self.is_asked:
            soon = max(request.now, (self.tried_at or request.now) + PROBE_AFTER_ARRIVAL)
            self.retry_at = min(self.retry_at, soon)

    def end(self, deliveries: Iterable[str], settled: webhooks.Settled) -> None:
        """End deliveries without a further attempt."""
        ids = list(deliveries)
        for delivery_id in ids:
            self._forget(delivery_id)
        if ids:
            self.endings.append(Ending(deliveries=ids, settled=settled))

    def recheck(self, now: datetime) -> None:
        """Try the receiver at once: its webhook was changed."""
        self.is_asked = False
        self.retry_at = now if self.retry_at is not None else None
        for delivery_id in self.refused:
            self.waiting[delivery_id].due = now

    def next_due(self, now: datetime) -> datetime | None:
        """Return the start of the next round; a time that is not after `now` means at once, None that nothing waits."""
        if self.endings:
            return now
        if self._is_probing:
            return self.retry_at or now
        dues = [due for one in self.refused if (due := self.waiting[one].due) is not None]
        if len(self.waiting) > len(self.refused):
            # Those that have not failed wait as well: all are tried in their order.
            dues.append(self.retry_at or now)
        return min(dues, default=None)

    def next_round(self, caller_id: str, receiver: str, now: datetime) -> webhooks.RoundInput | None:
        """Return the next deliveries to attempt or to end at `now`; None when none is due."""
        due = self.next_due(now)
        if due is None or due > now:
            return None
        if self.endings:
            ending = self.endings[0]
            return webhooks.RoundInput(
                caller_id=caller_id,
                receiver=receiver,
                settles=tuple(ending.deliveries[:ROUND_SIZE]),
                settled=ending.settled,
            )
        self.began_with = len(self.waiting)
        is_probe = self._is_probing
        chosen = self._probed() if is_probe else self._due(now)
        left = OPENS_AFTER - len(self.failing.difference(chosen))
        attempts = tuple(webhooks.QueuedAttempt(delivery_id=one, attempts=self.waiting[one].attempts) for one in chosen)
        return webhooks.RoundInput(
            caller_id=caller_id,
            receiver=receiver,
            attempts=attempts,
            width=1 if is_probe else self.width,
            stops_after_failures=len(chosen) if is_probe else max(1, left),
            stops_after_success=is_probe,
        )

    def take(self, done: webhooks.RoundInput, result: webhooks.RoundResult, luck: float) -> None:
        """Note the result of a round."""
        if done.settles:
            self._settled(len(done.settles))
            return
        for attempt in result.attempts:
            self._note(attempt, result.now, luck)
        if result.closed is not None:
            self.end(list(self.waiting), result.closed)
        self._adapt(sum(one.outcome == "delivered" for one in result.attempts))

    @property
    def _is_probing(self) -> bool:
        return self.is_open and len(self.waiting) > len(self.refused)

    def summary(self, receiver: str) -> webhooks.ReceiverSummary:
        """Return the summary in the queue's memo."""
        return webhooks.ReceiverSummary(
            receiver=receiver,
            waiting=len(self.waiting),
            holds=self.holds,
            failing_since=self.failing_since,
            next_attempt_at=self.retry_at,
            message=self.message,
        )

    def _note(self, attempt: webhooks.RoundAttempt, now: datetime, luck: float) -> None:
        if attempt.failure is None:
            self._forget(attempt.delivery_id)
        elif attempt.delivery_id in self.waiting:
            self._failed(attempt.delivery_id, attempt.failure, now, luck)
        if attempt.outcome == "delivered":
            self._succeeded()

    def _succeeded(self) -> None:
        for delivery_id in self.failing:
            self.waiting[delivery_id].outlived_failure = True
        self.is_draining = self.is_draining or bool(self.failing) or self.is_open
        self.failing.clear()
        self.is_open = self.is_asked = False
        self.failing_since = self.retry_at = self.message = None

    def _failed(self, delivery_id: str, failure: webhooks.Failure, now: datetime, luck: float) -> None:
        waiting = self.waiting[delivery_id]
        waiting.attempts += 1
        first, asked = timedelta(seconds=self.first_pause_seconds), failure.retry_after
        if waiting.outlived_failure:
            give_up = timedelta(seconds=self.give_up_seconds)
            pause = pause_after(now - waiting.since, first=first, give_up=give_up, asked=asked, luck=luck)
            if pause is None:
                self.end([delivery_id], _given_up(failure.message, waiting.attempts))
            else:
                self.refused.add(delivery_id)
                waiting.due = now + pause
            return
        self.failing.add(delivery_id)
        self.failing_since = self.failing_since or now
        self.tried_at, self.message = now, failure.message
        self.is_asked = asked is not None
        self.is_open = self.is_open or self.is_asked or len(self.failing) >= OPENS_AFTER
        self._expire(delivery_id, now)
        pause = probe_pause(now - self.failing_since, first=first, left=self._left(now), asked=asked, luck=luck)
        self.retry_at = now + pause

    def _expire(self, tried: str, now: datetime) -> None:
        """Give up the event that was tried, and with an open breaker all others, whose time is over."""
        at_stake = [one for one in self.waiting if one not in self.refused] if self.is_open else [tried]
        over = [one for one in at_stake if now - self.waiting[one].since >= timedelta(seconds=self.give_up_seconds)]
        for attempts in sorted({self.waiting[one].attempts for one in over}):
            with_so_many = [one for one in over if one in self.waiting and self.waiting[one].attempts == attempts]
            self.end(with_so_many, _given_up(self.message or "", attempts))

    def _left(self, now: datetime) -> timedelta | None:
        """Return the time until the first of the waiting events is given up."""
        since = min((one.since for name, one in self.waiting.items() if name not in self.refused), default=None)
        return None if since is None else timedelta(seconds=self.give_up_seconds) - (now - since)

    def _probed(self) -> list[str]:
        ordered = self._ordered(one for one in self.waiting if one not in self.refused)
        oldest = ordered[0]
        if len(ordered) == 1 or self.waiting[oldest].attempts < _TRIED_OFTEN:
            return [oldest]
        return [oldest, min(ordered[1:], key=lambda one: self.waiting[one].attempts)]

    def _due(self, now: datetime) -> list[str]:
        is_time = self.retry_at is None or self.retry_at <= now
        others = (one for one in self.waiting if is_time and one not in self.refused)
        refused = (one for one in self.refused if (due := self.waiting[one].due) is not None and due <= now)
        return [*self._ordered(others), *self._ordered(refused)][:ROUND_SIZE]

    def _ordered(self, deliveries: Iterable[str]) -> list[str]:
        return sorted(deliveries, key=lambda one: (self.waiting[one].event_at, one))

    def _adapt(self, delivered: int) -> None:
        """Deliver one after the other, and more at a time only while the queue grows although events are delivered."""
        if len(self.waiting) <= len(self.refused) + len(self.failing):
            self.is_draining = False
        if self.failing or not self.is_draining:
            self.width = 1
        elif delivered and len(self.waiting) > self.began_with:
            self.width = min(2 * self.width, MAX_WIDTH)

    def _forget(self, delivery_id: str) -> None:
        self.waiting.pop(delivery_id, None)
        self.failing.discard(delivery_id)
        self.refused.discard(delivery_id)

    def _settled(self, number: int) -> None:
        ending = self.endings[0]
        ending.deliveries = ending.deliveries[number:]
        if not ending.deliveries:
            self.endings.pop(0)


class QueueState(_Mutable):
    """Everything that waits for the receivers of one caller's events; input of the queue's workflow."""

    caller_id: str
    clock: datetime | None = None
    """The latest time that a signal or a result carried."""
    receivers: dict[str, Receiver] = Field(default_factory=dict[str, Receiver])

    @property
    def waiting(self) -> int:
        """Deliveries that wait."""
        return sum(len(one.waiting) for one in self.receivers.values())

    @property
    def tests(self) -> int:
        """Those of them that deliver a test."""
        return sum(one.is_test for receiver in self.receivers.values() for one in receiver.waiting.values())

    def add(self, request: webhooks.EnqueueInput, luck: float) -> Receiver:
        """Add a delivery; beyond the limits of its caller it ends at once, as one that was not delivered."""
        receiver = self.receivers.setdefault(request.receiver, Receiver())
        too_many = None if request.delivery_id in receiver.waiting else self._too_many(request)
        if too_many is None:
            receiver.add(request, luck)
        else:
            receiver.end([request.delivery_id], webhooks.Settled(outcome="undelivered", message=too_many, attempts=0))
        return receiver

    def summary(self) -> webhooks.QueueSummary:
        """Return the content of the memo."""
        size = webhooks.MAX_SUMMARISED_RECEIVERS
        most = heapq.nlargest(size, self.receivers, key=lambda one: len(self.receivers[one].waiting))
        named = tuple(self.receivers[one].summary(one) for one in sorted(most))
        return webhooks.QueueSummary(waiting=self.waiting, tests=self.tests, receivers=named)

    def _too_many(self, request: webhooks.EnqueueInput) -> str | None:
        if self.waiting >= request.most_waiting:
            return too_many_waiting(request.most_waiting)
        if request.is_test and self.tests >= request.most_tests:
            return f"{request.most_tests} tests wait for their receivers already (`webhook_tests` in the policy)."
        return None


def too_many_waiting(most: int) -> str:
    """Return the reason why an event is not added to a full queue."""
    return (
        f"{most} events wait for your receivers already, the most that may (`webhook_deliveries` in the operator's "
        "policy). Replay this one when they take events again."
    )


def _given_up(message: str, attempts: int) -> webhooks.Settled:
    return webhooks.Settled(outcome="undelivered", message=message, attempts=attempts)
