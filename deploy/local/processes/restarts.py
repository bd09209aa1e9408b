"""How long to wait before a process that ended is started again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Pauses between restarts, in seconds. There is no limit on their number: a part is never given up.

    The first restart comes after `first_pause_seconds`. Every further one doubles the pause, up to
    `max_pause_seconds`, until the process has been ready for `steady_seconds`.
    """

    first_pause_seconds: float = 0.1
    max_pause_seconds: float = 30.0
    steady_seconds: float = 30.0


class RestartPauses:
    """The pauses of one process."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._next_seconds = policy.first_pause_seconds

    def forget(self) -> None:
        """Let the next restart come after the first pause, as if nothing had ended before."""
        self._next_seconds = self._policy.first_pause_seconds

    def after_end(self, ready_seconds: float) -> float:
        """Return the seconds to wait before the next start, for a process that was ready for `ready_seconds`."""
        if ready_seconds >= self._policy.steady_seconds:
            self.forget()
        pause = min(self._next_seconds, self._policy.max_pause_seconds)
        self._next_seconds = pause * 2
        return pause
