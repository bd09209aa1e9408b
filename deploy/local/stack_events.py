"""The events that a stack reports while it starts, runs and stops."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class StackEventKind(StrEnum):
    """Every kind of event."""

    STARTING = "starting"
    READY = "ready"
    PORT_CHANGED = "port_changed"
    EXITED = "exited"
    RESTARTING = "restarting"
    RELOADING = "reloading"
    """The user's tools have changed; worker and API are replaced."""
    RELOAD_FAILED = "reload_failed"
    """The user's tools have changed and cannot be loaded; worker and API stay as they are."""
    BEGIN_ANEW = "begin_anew"
    """What `--begin-anew` has done to the data directory."""
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StackEvent:
    """One thing that happened: `component` is a process's name or `stack`, `message` a sentence to print."""

    kind: StackEventKind
    component: str
    message: str

    def as_json(self) -> str:
        """Return the event as one line of JSON."""
        return json.dumps({"event": self.kind.value, "component": self.component, "message": self.message})


OnEvent = Callable[[StackEvent], None]
"""Called in the stack's event loop for every event; it must not block."""


def ignore_event(event: StackEvent) -> None:
    """Do nothing with an event."""
    del event
