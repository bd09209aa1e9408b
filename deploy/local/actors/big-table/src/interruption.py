"""Requests to stop: the platform's `aborting` event, and SIGTERM from the container runtime.

Each Actor has a copy of this module, because an Actor folder has to build and run alone, with only the SDK.
"""

import asyncio
import signal
from typing import Self

from apify import Actor, Event

EXIT_CODE_SIGTERM = 128 + signal.SIGTERM


class Interruption:
    """Waits that end early when the run is asked to stop. Use as a context manager inside `async with Actor`."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self.exit_code = 0

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._on_sigterm)
        Actor.on(Event.ABORTING, self._on_aborting)
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)

    @property
    def requested(self) -> bool:
        """True if the run was asked to stop."""
        return self._requested.is_set()

    @property
    def word(self) -> str:
        """Word for a status message. SIGTERM can mean an abort or a timeout."""
        return "Stopped" if self.exit_code == EXIT_CODE_SIGTERM else "Aborted"

    async def wait(self, seconds: float | None = None) -> bool:
        """Sleep, forever without `seconds`. Return early, and True, when the run is asked to stop."""
        try:
            await asyncio.wait_for(self._requested.wait(), timeout=seconds)
        except TimeoutError:
            return False
        return True

    def _on_sigterm(self) -> None:
        self.exit_code = EXIT_CODE_SIGTERM
        self._requested.set()

    def _on_aborting(self, _event: object = None) -> None:
        self._requested.set()
