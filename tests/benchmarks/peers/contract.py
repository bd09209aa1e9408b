"""What every peer is asked to do, so that one load and one kill measure them all."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.support.stacks.sandbox import Sandbox

CALLERS = 64
"""Peers whose workers have a number of slots get this many, so that no caller waits for a slot."""


class Connection(Protocol):
    """One caller's connection to a peer's front, as the peer's users have it."""

    async def read_rows(self, dataset_id: str) -> int:
        """Make the small call durably, wait for its answer, and return how many rows came."""
        ...

    async def start_run(self, call_id: str, seconds: float) -> str:
        """Make the call that starts a paid run and reads its rows; returns the call's ticket once it is accepted."""
        ...

    async def has_ended(self, ticket: str) -> bool | None:
        """Whether the call has ended well; None while it has not ended."""
        ...


class Running(Protocol):
    """A peer that runs."""

    @property
    def sandbox(self) -> Sandbox:
        """The platform that its calls reach."""
        ...

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A new connection."""
        ...

    def kill(self) -> None:
        """`kill -9` the process that executes calls. It is started again at once."""
        ...


@dataclass(frozen=True)
class Peer:
    """One way to make a call durable on one machine."""

    name: str
    versions: Callable[[], str]
    front: str
    """How a caller reaches it."""
    settings: str
    """What differs from the defaults, and how it keeps what it must not lose."""
    recommended_by: str
    """The page of its documentation that recommends this configuration."""
    promises: str
    """What it says about a step that was cut off."""
    install: Callable[[], None]
    """Raises `CannotRunError`."""
    running: Callable[[Path], AbstractAsyncContextManager[Running]]
    """Start it in a folder, with a platform of its own, and stop it at the end."""


def app_environment(sandbox: Sandbox, more: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """What the app of a peer needs to reach the platform."""
    return {**base, "APIFY_TOKEN": sandbox.token, "APIFY_API_BASE_URL": sandbox.url, **more}
