"""The pauses between attempts grow, over days, and end."""

from datetime import UTC, datetime, timedelta

import pytest

from outlast.activities.webhooks.posting import PostOutcome, asked_pause_seconds, posted
from outlast.activities.webhooks.waiting import MAX_PAUSE, pause_after, probe_pause

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


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        (b"120", 120),
        (b"0", None),
        (b"99999999999999999999", 999_999_999_999),
        (b"Fri, 27 Nov 2026 00:10:00 GMT", 600),
        (b"Friday, 27-Nov-26 00:10:00 GMT", 600),
        (b"Fri, 27 Nov 2026 00:10:00 -0100", 4_200),
        (b"Thu, 26 Nov 2026 23:59:59 GMT", None),
        (b"Wed, 21 Oct 99999999999 07:28:00 GMT", None),
        (b"-5", None),
        (b"1.5", None),
        (b"soon", None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_a_pause_is_asked_for_in_seconds_or_as_a_date(header: bytes | None, seconds: float | None) -> None:
    assert asked_pause_seconds(header, datetime(2026, 11, 27, tzinfo=UTC)) == seconds


def test_no_pause_that_a_receiver_asks_for_is_longer_than_six_hours() -> None:
    asked = timedelta(seconds=999_999_999_999)
    assert probe_pause(timedelta(0), first=FIRST, left=GIVE_UP, asked=asked) == MAX_PAUSE
    assert pause_after(timedelta(0), first=FIRST, give_up=GIVE_UP, asked=asked) == MAX_PAUSE


def test_luck_moves_a_pause_by_a_tenth_at_most() -> None:
    earliest, latest = (pause_after(timedelta(0), first=FIRST, give_up=GIVE_UP, luck=luck) for luck in (0.0, 1.0))
    assert (earliest, latest) == (FIRST * 0.9, FIRST * 1.1)


def test_what_a_status_means() -> None:
    outcomes = {status: posted(status).outcome for status in (200, 204, 301, 400, 404, 410, 429, 500)}
    assert outcomes.pop(200) == outcomes.pop(204) == PostOutcome.DELIVERED
    assert outcomes.pop(410) == PostOutcome.GONE
    assert set(outcomes.values()) == {PostOutcome.REFUSED}
