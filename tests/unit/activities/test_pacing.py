"""Those that wait look no more often together, and try no more often, however many they are."""

from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import CAPACITY_RETRY_DELAY, ToolFailure, as_activity_failure
from outlast.activities.pacing import Line, Looks

LEAST = timedelta(seconds=10)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_followers_share_a_number_of_looks_per_second() -> None:
    looks = Looks(per_second=50)
    with looks.follower():
        assert looks.pause_seconds(1) == 1
    followers = [looks.follower() for _ in range(1_000)]
    for follower in followers:
        follower.__enter__()
    assert looks.pause_seconds(1) == 20
    for follower in followers:
        follower.__exit__(None, None, None)
    assert looks.pause_seconds(1) == 1


def test_a_line_has_one_try_after_the_other_in_the_order_of_those_that_wait() -> None:
    clock = Clock()
    line = Line(per_second=20, clock=clock)
    pauses = [line.pause("ann", LEAST).total_seconds() for _ in range(2_000)]
    assert pauses[0] == 10
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(10 + 1_999 / 20)
    assert line.pause("bob", LEAST) == LEAST, "other callers do not wait behind them"


def test_tries_do_not_become_more_frequent_when_those_that_tried_come_back() -> None:
    clock = Clock()
    line = Line(per_second=20, clock=clock)
    moments = sorted(clock.now + line.pause("ann", LEAST).total_seconds() for _ in range(1_000))
    for _ in range(5_000):
        clock.now = moments.pop(0)
        moments.append(clock.now + line.pause("ann", LEAST).total_seconds())
    assert moments == sorted(moments)
    assert moments[-1] - moments[0] == pytest.approx(999 / 20)


def test_a_line_that_nobody_stands_in_is_forgotten() -> None:
    clock = Clock()
    line = Line(per_second=20, clock=clock)
    for number in range(1_500):
        line.pause(f"caller {number}", LEAST)
    clock.now += 3_600
    assert line.pause("one more", LEAST) == LEAST
    assert line.pause("caller 1499", LEAST) == LEAST


async def test_starts_that_wait_for_room_are_tried_the_less_often_the_more_there_are() -> None:
    delays = [await _delay("key:waiting", ErrorCategory.CAPACITY) for _ in range(400)]
    assert delays[0] in (None, CAPACITY_RETRY_DELAY)
    assert delays[-1] is not None
    assert delays[-1] > CAPACITY_RETRY_DELAY + timedelta(seconds=15)
    assert await _delay("key:other", ErrorCategory.CAPACITY) in (None, CAPACITY_RETRY_DELAY)


async def test_runs_that_an_outage_keeps_from_being_followed_are_tried_the_less_often_the_more_there_are() -> None:
    delays = [await _delay("key:followers", ErrorCategory.NETWORK) for _ in range(1_000)]
    assert delays[0] is None, "the retry policy decides"
    assert delays[-1] is not None
    assert delays[-1] > timedelta(seconds=15)


async def _delay(caller_id: str, category: ErrorCategory) -> timedelta | None:
    """The pause after a failure, None where the retry policy decides."""

    async def fails() -> None:
        with as_activity_failure(waits_of=caller_id):
            raise ToolFailure.of(category, "No room, or no connection.", retryable=True)

    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(fails)
    return raised.value.next_retry_delay
