"""A caller's open hand-offs: what its tasks wait for a client to do, all at once or as they come and go.

Temporal's visibility is asked, now and then while somebody follows: nothing is kept here, so that any API process can
tell, and a follower that comes back sees what is open now.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

from outlast.activities.contracts import Caller
from outlast.api.contracts.events import HandoffChange, OpenHandoff
from outlast.api.contracts.tasks import Task
from outlast.api.errors import TemporalUnavailable
from outlast.api.tasks.client import MAX_PAGE, TaskClient
from outlast.api.temporal.question_events import handed_over
from outlast.workflows.contracts.tool_calls import TaskStatus

MAX_HANDOFFS: Final = 1_000
"""Of one caller at once, the newest first; the others follow as these are answered."""
LOOK_SECONDS: Final = 1.0
"""How long a new hand-off may stay unnoticed by those who follow."""


class Handoffs:
    """Finds the open hand-offs of callers."""

    def __init__(self, tasks: TaskClient) -> None:
        """Look among `tasks`."""
        self._tasks = tasks

    async def open(self, caller: Caller, tools: Sequence[str] = ()) -> list[OpenHandoff]:
        """The caller's open hand-offs, of these tools or of all; `MAX_HANDOFFS` at most.

        Raises `TemporalUnavailable`, and `BadRequest` for what can be no tool's name.
        """
        found: list[OpenHandoff] = []
        for tool in dict.fromkeys(tools) or (None,):
            async for task in self._waiting(caller, tool):
                found.extend(_handed_over(task))
                if len(found) >= MAX_HANDOFFS:
                    return found[:MAX_HANDOFFS]
        return found

    async def follow(self, caller: Caller, tools: Sequence[str] = ()) -> AsyncIterator[HandoffChange]:
        """Those that are open, then what opens and closes; silent while the Temporal server is away. Never ends."""
        known: dict[tuple[str, str, datetime | None], OpenHandoff] = {}
        while True:
            try:
                now = {handoff.identity: handoff for handoff in await self.open(caller, tools)}
            except TemporalUnavailable:
                now = known
            for identity in (each for each in known if each not in now):
                yield _closed(known[identity])
            for identity in (each for each in now if each not in known):
                yield HandoffChange(name="handoff", data=now[identity].model_dump(mode="json", exclude_none=True))
            known = now
            await asyncio.sleep(LOOK_SECONDS)

    async def _waiting(self, caller: Caller, tool: str | None) -> AsyncIterator[Task]:
        token: str | None = None
        while True:
            page = await self._tasks.list(
                caller, status=TaskStatus.INPUT_REQUIRED, tool=tool, page_size=MAX_PAGE, page_token=token
            )
            for task in page.tasks:
                yield task
            if (token := page.next_page_token) is None:
                return


def _closed(handoff: OpenHandoff) -> HandoffChange:
    data = handoff.model_dump(mode="json", include={"task_id", "key", "deadline"}, exclude_none=True)
    return HandoffChange(name="handoff_closed", data=data)


def _handed_over(task: Task) -> list[OpenHandoff]:
    return [
        OpenHandoff(
            **handed_over(key, request).model_dump(),
            task_id=task.id,
            session_id=task.session_id,
            created_at=task.created_at,
        )
        for key, request in (task.input_requests or {}).items()
        if request.handoff is not None
    ]
