"""Open hand-offs: what waits for the caller, and the events of the stream about them."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import Field, JsonValue

from outlast.client.contracts.base import Response


class OpenHandoff(Response):
    """An open question of the caller: question `key` of task `task_id`.

    It is asked by one of the caller's own tasks, or it is the approval of another caller's call that this one may give.
    """

    task_id: str
    key: str
    session_id: str | None = None
    created_at: datetime | None = None
    """When the task was started."""
    kind: str = "client"
    """`client`: the client's part of a tool. `approval`: the call goes on when it is approved."""
    audience: str = "person"
    tool: str = ""
    phase: str = ""
    message: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    answer_schema: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    deadline: datetime | None = None
    """When the question closes without an answer."""
    maker: str | None = None
    """For an approval: id of the caller whose call it is."""
    approvers: tuple[str, ...] = ()
    """Roles: only another caller who has all of them may answer; empty: the caller itself."""

    @property
    def identity(self) -> tuple[str, str, datetime | None]:
        """Identifies it among all others."""
        return (self.task_id, self.key, self.deadline)


class HandoffList(Response):
    """Everything of that kind."""

    handoffs: tuple[OpenHandoff, ...] = ()


@dataclass(frozen=True, slots=True)
class HandoffEvent:
    """`connected`: what is open follows from the beginning. `opened` and `closed`: a hand-off began or ended."""

    name: str
    handoff: OpenHandoff | None = None
