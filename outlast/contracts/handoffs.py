"""Hand-offs that wait for an answer, and the stream about them as clients read it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from outlast.contracts import tasks
from outlast.contracts.base import Response, absent


class OpenHandoff(tasks.HandoffEvent):
    """A hand-off that waits for an answer: `POST /v1/tasks/{task_id}/input`, under `key`."""

    task_id: str
    caller: str | None = Field(default=None, description="Id of the caller whose task it is, if you may see it.")
    session_id: str | None = None
    created_at: datetime = Field(description="When the task was started.")

    @property
    def identity(self) -> tuple[str, str, datetime | None]:
        """Distinguishes it from every other hand-off, including a later one of the same task under the same key."""
        return (self.task_id, self.key, self.deadline)


class HandoffList(Response):
    """Hand-offs that wait for an answer."""

    handoffs: Annotated[tuple[OpenHandoff, ...], absent(())]


@dataclass(frozen=True, slots=True)
class HandoffEvent:
    """`connected`: all open hand-offs follow. `opened` and `closed`: a hand-off began or ended."""

    name: str
    handoff: OpenHandoff | None = None
