"""How long to wait between attempts to deliver an event. Pure."""

from datetime import timedelta

MAX_PAUSE = timedelta(hours=6)
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
