"""Room in memory for content that was read and waits to be taken."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Held(Protocol):
    """Room that is held."""

    def holds(self, size_bytes: int) -> None:
        """Set the size, when less or more than expected was read."""
        ...


class Room(Protocol):
    """Room that several readers share. A reader for a client that may be slow takes room before each read."""

    @property
    def is_scarce(self) -> bool:
        """True while other readers wait for room: no reader should read ahead then."""
        ...

    def hold(self, size_bytes: int) -> AbstractAsyncContextManager[Held]:
        """Wait for room for `size_bytes`, and keep it until the end of the block."""
        ...
