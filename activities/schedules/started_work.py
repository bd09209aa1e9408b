"""What a firing needs of tasks and batches. This floor does not know what they are: `worker.schedules` does."""

from typing import Protocol

from outlast.activities.schedules.contracts import FiringEnd, FiringStart, Started, StartFiringInput


class FiringStarter(Protocol):
    """Starts what is due. The API has one: it judges a firing as it judges a request of the caller."""

    async def start(self, request: StartFiringInput) -> FiringStart:
        """Have it started, once for the firing, whatever was lost of earlier attempts.

        Raises for what may be gone when it is tried again.
        """
        ...


class StartedWork(Protocol):
    """Tasks and batches that are under way. Every method raises `RPCError` when Temporal does not answer."""

    async def end_of(self, started: Started) -> FiringEnd:
        """How it has ended, as soon as it has."""
        ...

    async def cancel(self, started: Started) -> None:
        """Have it cancelled, unless it has ended."""
        ...
