"""Events of tasks, turns, sessions and hand-offs."""

from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field, JsonValue

from outlast.client.contracts.base import Response


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


class OpenHandoff(Response):
    """A hand-off of one of the caller's tasks: `key` names the question of task `task_id` that waits for an answer."""

    task_id: str
    key: str
    session_id: str | None = None
    created_at: datetime | None = None
    kind: str = "client"
    audience: str = "person"
    tool: str = ""
    phase: str = ""
    message: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    answer_schema: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    deadline: datetime | None = None
    maker: str | None = None
    approvers: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, str, datetime | None]:
        """What distinguishes it from all others."""
        return (self.task_id, self.key, self.deadline)


@dataclass(frozen=True, slots=True)
class HandoffEvent:
    """`connected`: what is open follows from the beginning. `opened` and `closed`: a hand-off began or ended."""

    name: str
    handoff: OpenHandoff | None = None
