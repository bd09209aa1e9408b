"""The pauses between attempts grow, over days, and end."""

from datetime import timedelta

from outlast.activities.webhooks.posting import PostOutcome, posted
from outlast.activities.webhooks.retrying import MAX_PAUSE, pause_after

FIRST, GIVE_UP = timedelta(seconds=5), timedelta(hours=72)


def pauses(give_up: timedelta = GIVE_UP) -> list[timedelta]:
    """The pauses of an event that nobody takes, where each attempt takes no time."""
    found: list[timedelta] = []
    while (pause := pause_after(sum(found, timedelta(0)), first=FIRST, give_up=give_up)) is not None:
        found.append(pause)
    return found


def test_pauses_grow_up_to_six_hours_over_three_days() -> None:
    found = pauses()
    assert found[:4] == [timedelta(seconds=seconds) for seconds in (5, 10, 30, 90)]
    assert max(found) == MAX_PAUSE
    assert found == sorted(found[:-1]) + found[-1:]
    assert GIVE_UP <= sum(found, timedelta(0)) <= GIVE_UP + FIRST
    assert 15 <= len(found) <= 25


def test_the_last_attempt_is_made_when_the_time_is_over_and_not_before() -> None:
    assert pause_after(timedelta(hours=71), first=FIRST, give_up=GIVE_UP) == timedelta(hours=1) + FIRST
    assert pause_after(GIVE_UP, first=FIRST, give_up=GIVE_UP) is None


def test_a_receiver_may_ask_for_a_longer_pause_and_for_no_shorter_one() -> None:
    asked = posted(503, b"120").retry_after_seconds
    assert asked == 120
    later = timedelta(seconds=asked)
    assert pause_after(timedelta(0), first=FIRST, give_up=GIVE_UP, asked=later) == later
    assert pause_after(timedelta(hours=1), first=FIRST, give_up=GIVE_UP, asked=later) == timedelta(hours=2)
    assert pause_after(timedelta(0), first=FIRST, give_up=GIVE_UP, asked=timedelta(days=9)) == MAX_PAUSE
    assert posted(503, b"Wed, 21 Oct 2026 07:28:00 GMT").retry_after_seconds is None


def test_luck_moves_a_pause_by_a_tenth_at_most() -> None:
    earliest, latest = (pause_after(timedelta(0), first=FIRST, give_up=GIVE_UP, luck=luck) for luck in (0.0, 1.0))
    assert (earliest, latest) == (FIRST * 0.9, FIRST * 1.1)


def test_what_a_status_means() -> None:
    outcomes = {status: posted(status).outcome for status in (200, 204, 301, 400, 404, 410, 429, 500)}
    assert outcomes.pop(200) == outcomes.pop(204) == PostOutcome.DELIVERED
    assert outcomes.pop(410) == PostOutcome.GONE
    assert set(outcomes.values()) == {PostOutcome.REFUSED}
