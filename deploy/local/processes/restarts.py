"""When a process that ended is started again, and when it is given up."""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How patient the stack is with its children.

    A process that was ready comes back at once; one that ends before it is ready waits longer each time.
    """

    first_delay_seconds: float = 0.1
    max_delay_seconds: float = 5.0
    max_failed_starts: int = 5
    """So many ends in a row before readiness, and the process is given up."""
    max_restarts: int = 30
    window_seconds: float = 60.0
    """More than `max_restarts` ends within this time, and the process is given up, ready or not."""


class RestartBudget:
    """Counts one process's ends against a policy."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._failed_starts = 0
        self._ends: deque[float] = deque()

    def after_end(self, now_seconds: float, was_ready: bool) -> float | None:
        """Return the seconds to wait before the next start, or None to give up."""
        self._failed_starts = 0 if was_ready else self._failed_starts + 1
        self._ends.append(now_seconds)
        while self._ends[0] < now_seconds - self._policy.window_seconds:
            self._ends.popleft()
        if self._failed_starts >= self._policy.max_failed_starts or len(self._ends) > self._policy.max_restarts:
            return None
        delay = self._policy.first_delay_seconds * 2**self._failed_starts
        return min(delay, self._policy.max_delay_seconds)
