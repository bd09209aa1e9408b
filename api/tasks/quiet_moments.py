"""Moments at which no task was being started: on which side of them a task lies is known without asking Temporal."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Start:
    """When Temporal was asked to start a task, and when it had confirmed it: infinity before that. Seconds."""

    asked_at: float
    known_at: float = float("inf")


def quiet_moment(starts: Iterable[Start], *, latest: float, earliest: float) -> float:
    """The last moment from `earliest` to `latest` at which none of `starts` was under way; `latest` without any.

    A start takes Temporal a while, on a busy machine seconds. At any other moment only Temporal knows whether the task
    began before it.
    """
    found = latest
    for start in sorted(starts, key=lambda start: start.asked_at, reverse=True):
        if start.asked_at < found <= start.known_at:
            found = start.asked_at
    return found if found >= earliest else latest
