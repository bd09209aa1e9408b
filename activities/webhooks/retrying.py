"""How long to wait between attempts to deliver an event. Pure."""

from datetime import timedelta

MAX_PAUSE = timedelta(hours=6)
MAX_PROBE_PAUSE = timedelta(hours=1)
"""The longest pause before the next probe of a receiver that fails: one probe, however many events wait."""
_GROWTH = 2
"""Each pause is so much longer than all the time before it: 5, 10, 30, 90 seconds and so on, up to six hours."""


def pause_after(
    elapsed: timedelta, *, first: timedelta, give_up: timedelta, asked: timedelta | None = None, luck: float = 0.5
) -> timedelta | None:
    """The pause before the next attempt, `elapsed` after the first one; None when the last attempt was made.

    The receiver may have `asked` for a longer one. `luck` between 0 and 1 spreads attempts by a tenth either way, so
    that those to a receiver that was away do not all come at once.
    """
    left = give_up - elapsed
    if left <= timedelta(0):
        return None
    pause = min(max(first, elapsed * _GROWTH, asked or timedelta(0)), MAX_PAUSE)
    # What comes too early after the end of the time still is the last attempt.
    return min(pause * (0.9 + 0.2 * luck), left + first)


def probe_pause(
    failing_for: timedelta, *, first: timedelta, left: timedelta | None, asked: timedelta | None, luck: float = 0.5
) -> timedelta:
    """The pause before the next probe of a receiver that has been failing for some time.

    `left` is the time until the first waiting event is given up: it gets a last attempt then, but probes do not become
    more than ten times as frequent. `asked` and `luck` as for `pause_after`.
    """
    pause = min(max(first, failing_for * _GROWTH), MAX_PROBE_PAUSE) * (0.9 + 0.2 * luck)
    if left is not None:
        pause = min(pause, max(left + first, pause / 10))
    return pause if asked is None else max(pause, min(asked, MAX_PAUSE))
