"""What a stack tells the person who started it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class StackEventKind(StrEnum):
    """Every kind of thing that a stack says."""

    STARTING = "starting"
    READY = "ready"
    PORT_CHANGED = "port_changed"
    EXITED = "exited"
    RESTARTING = "restarting"
    GAVE_UP = "gave_up"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StackEvent:
    """One thing that happened: `component` is a process's name or `stack`, `message` a sentence to print."""

    kind: StackEventKind
    component: str
    message: str


OnEvent = Callable[[StackEvent], None]
"""Called in the stack's event loop for every event; it must not block."""


def ignore_event(event: StackEvent) -> None:
    """Tell nobody."""
    del event
