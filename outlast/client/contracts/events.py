"""Events of tasks, turns and sessions, and the rows of tasks."""

from dataclasses import dataclass, field

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `id` is absent for an event that the server does not send again; `time` is ISO 8601."""

    name: str
    id: str | None = None
    time: str | None = None
    data: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def document(self) -> dict[str, JsonValue]:
        """The event as JSON."""
        return {"event": self.name, "id": self.id, "time": self.time, "data": self.data}


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One row of a task. Its id is where to go on after it; it stays good for as long as the row is kept."""

    id: str
    data: dict[str, JsonValue]

    def document(self) -> dict[str, JsonValue]:
        """The row with its id, as JSON."""
        return {"id": self.id, "data": self.data}
