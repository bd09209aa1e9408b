"""When a request is repeated, and for how long."""

from collections.abc import Callable
from dataclasses import dataclass

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """For how long a server that does not answer, or answers 429, 502, 503 or 504, is asked again.

    Pauses grow from `first_pause_seconds` to ten seconds, and are never shorter than a `Retry-After` of the server.
    Other refusals are never repeated.
    """

    first_contact_seconds: float = 5.0
    """While nothing has ever answered at the address."""
    request_seconds: float = 60.0
    """For a single request."""
    wait_seconds: float = 300.0
    """While waiting for a task, and while following events."""
    first_pause_seconds: float = FIRST_PAUSE_SECONDS


@dataclass(frozen=True, slots=True)
class Waiting:
    """The client waits for the server: why, and for how many more seconds it will; None is without end."""

    reason: str
    seconds_left: float | None


OnWaiting = Callable[[Waiting | None], None]
"""Called when a request is about to be repeated, and with None when the server answers again."""


def ignore_waiting(waiting: Waiting | None) -> None:
    """Do nothing."""
    del waiting
