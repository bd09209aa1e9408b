"""The context of a plain function: facts of its call, and reports of progress."""

from collections.abc import Callable
from dataclasses import dataclass

from outlast.workflows.contracts.tool_calls import Progress

MAX_PROGRESS_CHARS = 500


def _to_nobody(_progress: Progress) -> None:
    """For functions that are called without a task, as in their own tests."""


@dataclass(frozen=True)
class CallContext:
    """The call of a plain function. A function with a keyword parameter `context` gets it."""

    task_id: str
    caller_id: str
    """Who calls, for example `key:ann`. Names no secret."""
    session_id: str | None = None
    """The conversation that the call belongs to, if any."""
    attempt: int = 1
    """Which attempt this is: above 1 after a failure that may pass, or after the death of a worker."""
    report: Callable[[Progress], None] = _to_nobody
    """Where `progress` goes."""

    def progress(self, done: float, *, total: float | None = None, message: str = "") -> None:
        """Show the caller how far the function is, in any unit; the message in at most 500 characters.

        Only the latest one is kept, and it is sent no more often than every `OUTLAST_PROGRESS_SECONDS`: call it as
        often as you like, from the function's own event loop. It adds nothing to the task's history.
        """
        self.report(Progress(done=done, total=total, message=message[:MAX_PROGRESS_CHARS]))
