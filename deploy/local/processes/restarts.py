"""How long to wait before a process that ended is started again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Pauses between restarts, in seconds. There is no limit on their number: a part is never given up.

    At least `first_pause_seconds` pass between getting ready and the next start. Every end doubles that, up to
    `max_pause_seconds`, until the process has been ready for `steady_seconds`. So one that worked for longer than the
    pause starts again at once, and one that ends before it is ready, or soon after, is started ever more rarely.
    """

    first_pause_seconds: float = 0.05
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
        return max(0.0, pause - ready_seconds)
