"""Which waiting events are attempted, and when: it does not depend on how many wait, and they stay in order."""

from datetime import UTC, datetime, timedelta

import pytest

from outlast.activities.webhooks.contracts import (
    EnqueueInput,
    Failure,
    RoundAttempt,
    RoundInput,
    RoundResult,
    Settled,
    most_waiting_for,
)
from outlast.activities.webhooks.waiting import (
    MAX_PAUSE,
    MAX_PROBE_PAUSE,
    MAX_WIDTH,
    OPENS_AFTER,
    PROBE_AFTER_ARRIVAL,
    QueueState,
)

START = datetime(2026, 11, 26, tzinfo=UTC)
FIRST, GIVE_UP = timedelta(seconds=5), timedelta(hours=72)
CALLER, HOOK = "key:ann", "webhook-1"


class Queue:
    """A queue with one receiver, a clock, and what the receiver makes of each event."""

    def __init__(self, *, most_waiting: int = 100_000, most_tests: int = 20) -> None:
        self.state = QueueState(caller_id=CALLER)
        self.now = START
        self.refuses: set[str] = set()
        self.is_away = False
        self.attempts: list[str] = []
        self.delivered: list[str] = []
        self.settled: dict[str, Settled] = {}
        self.most_waiting, self.most_tests = most_waiting, most_tests

    def add(self, number: int, *, is_test: bool = False, asked: float | None = None, **more: bool) -> None:
        failure = Failure(message="It answered 500.", retry_after_seconds=asked) if more.get("failed") else None
        request = EnqueueInput(
            receiver=HOOK,
            delivery_id=name(number),
            event_at=START + timedelta(seconds=number),
            since=self.now,
            now=self.now,
            failure=failure,
            is_behind=more.get("is_behind", False),
            is_test=is_test,
            most_waiting=self.most_waiting,
            most_tests=self.most_tests,
            first_pause_seconds=FIRST.total_seconds(),
            give_up_seconds=GIVE_UP.total_seconds(),
        )
        self.state.add(request, 0.5)

    def fail(self, *numbers: int) -> None:
        """Add events whose first attempts have failed."""
        for number in numbers:
            self.add(number, failed=True)

    @property
    def receiver(self):
        return self.state.receivers[HOOK]

    @property
    def due(self) -> datetime | None:
        return self.receiver.next_due(self.now)

    def round(self) -> RoundInput | None:
        """One round now, if one is due."""
        wanted = self.receiver.next_round(CALLER, HOOK, self.now)
        if wanted is None:
            return None
        if wanted.settled is not None:
            self.settled |= dict.fromkeys(wanted.settles, wanted.settled)
        done: list[RoundAttempt] = []
        for one in wanted.attempts:
            done.append(self._attempt(one.delivery_id))
            failures = sum(attempt.failure is not None for attempt in done)
            if failures >= wanted.stops_after_failures or (wanted.stops_after_success and failures < len(done)):
                break
        self.receiver.take(wanted, RoundResult(attempts=tuple(done), now=self.now), 0.5)
        return wanted

    def run(self, until: timedelta) -> int:
        """Let time pass until there is nothing to do, or for so long; how many rounds that took."""
        rounds = 0
        while not self.receiver.is_empty and (due := self.due) is not None and due <= START + until:
            self.now = max(self.now, due)
            rounds += self.round() is not None
        return rounds

    def _attempt(self, delivery: str) -> RoundAttempt:
        self.attempts.append(delivery)
        if self.is_away or delivery in self.refuses:
            return RoundAttempt(delivery_id=delivery, outcome="failed", failure=Failure(message="It answered 500."))
        self.delivered.append(delivery)
        return RoundAttempt(delivery_id=delivery, outcome="delivered")


def name(number: int) -> str:
    return f"webhook-delivery:{HOOK}:evt_{number:05}"


def away(events: int) -> Queue:
    """A queue whose receiver has been failing since the first of so many events."""
    queue = Queue()
    queue.is_away = True
    queue.fail(*range(OPENS_AFTER))
    for number in range(OPENS_AFTER, events):
        queue.add(number, is_behind=True)
    return queue


def test_what_a_receiver_that_is_away_costs_does_not_grow_with_the_events_that_wait() -> None:
    few, many = away(10), away(10_000)
    rounds = [queue.run(timedelta(hours=12)) for queue in (few, many)]
    assert rounds[0] == rounds[1] <= 30
    assert len(many.attempts) == len(few.attempts) <= 2 * rounds[0]


def test_the_events_of_a_receiver_that_is_back_arrive_in_their_order() -> None:
    for hours in (0, 1, 30):
        queue = away(1_000)
        queue.run(timedelta(hours=hours))
        queue.is_away = False
        queue.run(timedelta(hours=hours) + MAX_PROBE_PAUSE * 1.1)
        assert queue.delivered == [name(number) for number in range(1_000)]


def test_events_wait_in_the_order_in_which_they_happened_however_they_were_added() -> None:
    queue = Queue()
    queue.add(7)
    for number in (3, 9, 1):
        queue.add(number, is_behind=True)
    queue.run(timedelta(0))
    assert queue.delivered == [name(number) for number in (1, 3, 7, 9)]


def test_a_few_failures_do_not_make_new_events_wait_and_all_that_wait_are_tried_in_their_order() -> None:
    queue = Queue()
    queue.fail(1, 3)
    assert not queue.receiver.holds
    assert queue.due == START + FIRST
    queue.add(2)
    assert queue.due == START + FIRST
    queue.run(FIRST)
    assert queue.delivered == [name(1), name(2), name(3)]


def test_new_events_wait_from_the_fifth_failure_in_a_row_on() -> None:
    queue = Queue()
    queue.fail(1, 2, 3, 4)
    assert not queue.receiver.holds
    queue.fail(5)
    assert queue.receiver.holds


def test_after_an_event_was_delivered_while_others_fail_new_ones_wait_behind_these() -> None:
    queue = Queue()
    queue.fail(1, 2, 3)
    wanted = queue.receiver.next_round(CALLER, HOOK, queue.now + FIRST)
    assert wanted is not None
    delivered = RoundAttempt(delivery_id=name(1), outcome="delivered")
    queue.receiver.take(wanted, RoundResult(attempts=(delivered,), now=queue.now + FIRST), 0.5)
    assert (queue.receiver.is_open, queue.receiver.holds) == (False, True)


def test_a_round_ends_with_the_failure_that_opens_the_breaker() -> None:
    queue = Queue()
    queue.fail(100, 101, 102)
    for number in range(1, 50):
        queue.add(number)
    queue.is_away = True
    queue.now += FIRST
    wanted = queue.round()
    assert wanted is not None
    assert queue.attempts == [name(number) for number in range(1, 1 + OPENS_AFTER)]
    assert wanted.stops_after_failures == OPENS_AFTER


def test_a_webhook_that_was_changed_is_tried_at_once_whatever_it_waits_for() -> None:
    queue = Queue()
    queue.add(1, failed=True, asked=1_200)
    queue.now += timedelta(minutes=2)
    queue.receiver.recheck(queue.now)
    assert queue.due == queue.now
    queue.run(timedelta(minutes=2))
    assert queue.delivered == [name(1)]
    # One that was refused for its own sake, too.
    queue = Queue()
    queue.refuses = {name(0)}
    queue.fail(0)
    queue.add(1)
    queue.run(timedelta(hours=1))
    assert queue.due is not None
    assert queue.due > queue.now
    queue.refuses = set()
    queue.receiver.recheck(queue.now)
    queue.run(queue.now - START)
    assert queue.delivered == [name(1), name(0)]


def test_while_a_receiver_fails_new_events_wait_and_one_probe_is_made_after_each_pause() -> None:
    queue = away(50)
    assert queue.receiver.holds
    pauses: list[timedelta] = []
    while len(pauses) < 12:
        due = queue.due
        assert due is not None
        pauses.append(due - queue.now)
        queue.now = due
        wanted = queue.round()
        assert wanted is not None
        assert len(wanted.attempts) <= 2
        assert (wanted.width, wanted.stops_after_success) == (1, True)
    assert pauses[:4] == [timedelta(seconds=seconds) for seconds in (5, 10, 30, 90)]
    assert max(pauses) == MAX_PROBE_PAUSE
    assert pauses == sorted(pauses)


def test_an_event_that_alone_is_refused_holds_no_other_up_and_has_pauses_of_its_own() -> None:
    queue = Queue()
    queue.refuses = {name(0)}
    queue.fail(0)
    for number in range(1, 100):
        queue.add(number)
    queue.run(timedelta(minutes=10))
    assert queue.delivered == [name(number) for number in range(1, 100)]
    assert not queue.receiver.holds
    queue.run(GIVE_UP + MAX_PAUSE)
    assert queue.settled[name(0)].outcome == "undelivered"
    assert queue.attempts.count(name(0)) <= 25


def test_an_event_that_is_refused_is_given_up_also_when_the_receiver_fails_later() -> None:
    queue = Queue()
    queue.refuses = {name(0)}
    queue.add(0)
    queue.add(1)
    queue.run(timedelta(minutes=1))
    assert queue.delivered == [name(1)]
    queue.is_away = True
    queue.fail(*range(10, 10 + OPENS_AFTER))
    queue.run(GIVE_UP * 2)
    assert set(queue.settled) == {name(0), *(name(number) for number in range(10, 10 + OPENS_AFTER))}
    assert queue.receiver.is_empty


def test_events_that_are_refused_delay_the_others_by_few_attempts_each() -> None:
    queue = Queue()
    queue.refuses = {name(number) for number in range(0, 100, 2)}
    for number in range(100):
        queue.add(number)
    queue.run(timedelta(hours=2))
    assert sorted(queue.delivered) == [name(number) for number in range(1, 100, 2)]


def test_a_probe_finds_out_that_it_was_the_oldest_event_and_not_the_receiver() -> None:
    queue = away(OPENS_AFTER + 1)
    queue.is_away, queue.refuses = False, {name(number) for number in range(OPENS_AFTER)}
    queue.run(timedelta(minutes=5))
    assert queue.delivered == [name(OPENS_AFTER)]


def test_a_new_event_brings_the_next_probe_forward_but_no_more_than_one_a_minute() -> None:
    queue = away(10)
    queue.run(timedelta(hours=10))
    tried, late = queue.now, queue.due
    assert late is not None
    assert late - tried > timedelta(minutes=50)
    for number in range(100, 200):
        queue.add(number, is_behind=True)
    assert queue.due == tried + PROBE_AFTER_ARRIVAL


def test_a_receiver_that_asks_for_a_pause_gets_it_at_once_and_new_events_do_not_cut_it_short() -> None:
    queue = Queue()
    queue.add(1, failed=True, asked=1_200)
    queue.add(2, is_behind=True)
    assert queue.receiver.holds
    assert queue.due == START + timedelta(seconds=1_200)


def test_events_are_given_up_when_their_time_is_over_each_after_its_own() -> None:
    queue = away(20)
    queue.now = START + timedelta(hours=10)
    queue.add(50, is_behind=True)
    queue.run(GIVE_UP - timedelta(seconds=1))
    assert queue.settled == {}
    queue.run(GIVE_UP + MAX_PROBE_PAUSE)
    assert set(queue.settled) == {name(number) for number in range(20)}
    assert {(one.outcome, one.message) for one in queue.settled.values()} == {("undelivered", "It answered 500.")}
    assert list(queue.receiver.waiting) == [name(50)]


def test_what_a_queue_has_no_room_for_ends_with_the_reason() -> None:
    queue = Queue(most_waiting=3, most_tests=1)
    queue.is_away = True
    for number in range(5):
        queue.add(number, failed=True)
    queue.add(0, failed=True)
    assert queue.state.waiting == 3
    queue.run(timedelta(0))
    assert set(queue.settled) == {name(3), name(4)}
    assert all("webhook_deliveries" in (one.message or "") for one in queue.settled.values())

    queue = Queue(most_tests=1)
    for number in range(3):
        queue.add(number, is_test=True)
    queue.run(timedelta(0))
    assert set(queue.settled) == {name(1), name(2)}
    assert queue.delivered == [name(0)]


def test_a_receiver_that_fails_leaves_room_for_others() -> None:
    queue = Queue(most_waiting=20)
    queue.fail(*range(30))
    known = queue.state.summary()
    assert known.waiting == 20
    room = [most_waiting_for(20, is_failing=known.is_failing(receiver)) - known.waiting for receiver in (HOOK, "other")]
    assert room == [0, 2]


@pytest.mark.parametrize(("most", "in_all"), [(1, 2), (3, 4), (25, 28), (10_000, 11_000)])
def test_a_further_tenth_may_wait_for_receivers_that_do_not_fail(most: int, in_all: int) -> None:
    assert most_waiting_for(most, is_failing=False) == in_all
    assert most_waiting_for(most, is_failing=True) == most


def test_all_deliveries_to_a_webhook_that_was_removed_end() -> None:
    queue = away(500)
    queue.receiver.recheck(queue.now)
    wanted = queue.receiver.next_round(CALLER, HOOK, queue.now)
    assert wanted is not None
    removed = Settled(outcome="dropped", message="The webhook was removed.")
    queue.receiver.take(wanted, RoundResult(now=queue.now, closed=removed), 0.5)
    assert queue.run(timedelta(0)) == 3, "in rounds of 200"
    assert len(queue.settled) == 500
    assert queue.receiver.is_empty


def test_a_queue_that_grows_while_events_are_delivered_is_delivered_faster() -> None:
    queue = Queue()
    for number in range(300):
        queue.add(number)
    widths: list[int] = []
    for number in range(5):
        wanted = queue.receiver.next_round(CALLER, HOOK, queue.now)
        assert wanted is not None
        widths.append(wanted.width)
        for later in range(250):
            queue.add(1_000 * (number + 1) + later, is_behind=True)
        done = tuple(RoundAttempt(delivery_id=one.delivery_id, outcome="delivered") for one in wanted.attempts)
        queue.receiver.take(wanted, RoundResult(attempts=done, now=queue.now), 0.5)
    assert widths == [1, 2, 4, MAX_WIDTH, MAX_WIDTH]


def test_a_queue_is_the_same_after_it_continued_as_new() -> None:
    queue = away(300)
    queue.refuses = {name(7)}
    queue.run(timedelta(hours=1))
    again = QueueState.model_validate_json(queue.state.model_dump_json())
    assert again == queue.state
