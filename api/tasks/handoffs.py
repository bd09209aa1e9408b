"""A caller's open hand-offs, and the approvals that it may give to others, as a list or as a stream of changes.

They are read from Temporal's visibility, at intervals while a client follows. No state is kept here, so that every API
process can serve them, and a client that reconnects sees what is open now.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from outlast.activities.contracts import Caller
from outlast.api.access.limits.unread_bytes import UnreadBytes
from outlast.api.access.principal import Principal
from outlast.api.errors import TemporalUnavailable
from outlast.api.tasks.client import MAX_PAGE, TaskClient
from outlast.api.temporal.history import LISTS
from outlast.api.temporal.task_events import handed_over
from outlast.contracts.events import HandoffChange
from outlast.contracts.handoffs import OpenHandoff
from outlast.contracts.tasks import Task, TaskListing
from outlast.workflows.contracts.tool_calls import TaskStatus

MAX_HANDOFFS: Final = 1_000
"""Maximum per caller, newest first, of its own and of others each. Older ones appear as these are answered."""
LOOK_SECONDS: Final = 1.0
"""How long it takes until followers see a new hand-off, while they are few."""
_EXPECTED_BYTES: Final = 64 * 1024
_COPIES: Final = 4
"""Memory that an open hand-off takes while it is sent, in multiples of its size as JSON."""
_Identity = tuple[str, str, datetime | None]


class Handoffs:
    """Finds the open hand-offs of callers."""

    def __init__(self, tasks: TaskClient, unread: UnreadBytes) -> None:
        """Read hand-offs through `tasks`. Those who follow them do so within what they may leave `unread`."""
        self._tasks = tasks
        self._unread = unread

    async def open(self, principal: Principal, tools: Sequence[str] = ()) -> list[OpenHandoff]:
        """The caller's open hand-offs, then the approvals that wait for it in the tasks of others.

        Of these tools or of all; at most `MAX_HANDOFFS` each. Raises `TemporalUnavailable`, and `BadRequest` for an
        invalid tool name.
        """
        own: list[OpenHandoff] = []
        others: list[OpenHandoff] = []
        for tool in dict.fromkeys(tools) or (None,):
            await _collect(self._waiting(principal.caller, tool), own)
            await _collect(self._tasks.to_approve(principal, tool=tool), others)
        return own + others

    async def follow(self, principal: Principal, tools: Sequence[str] = ()) -> AsyncGenerator[HandoffChange]:
        """The open hand-offs, then each that opens or closes. Silent during an outage of Temporal. Never ends."""
        known: dict[_Identity, HandoffChange] = {}
        room, expected_bytes = self._unread.room_of(principal.caller.id), _EXPECTED_BYTES
        with LISTS.follower():
            while True:
                with suppress(TemporalUnavailable):
                    async with room.hold(expected_bytes) as held:
                        now = {handoff.identity: handoff for handoff in await self.open(principal, tools)}
                        expected_bytes = max(_EXPECTED_BYTES, _COPIES * sum(map(_size_of, now.values())))
                        held.holds(expected_bytes)
                        for identity in [each for each in known if each not in now]:
                            yield known.pop(identity)
                        for identity in list(now):
                            handoff = now.pop(identity)
                            if identity not in known:
                                known[identity] = _closed(handoff)
                                yield _opened(handoff)
                            del handoff
                await asyncio.sleep(LISTS.pause_seconds(LOOK_SECONDS))

    async def _waiting(self, caller: Caller, tool: str | None) -> AsyncIterator[Task]:
        token: str | None = None
        while True:
            listing = TaskListing(status=TaskStatus.INPUT_REQUIRED, tool=tool, page_size=MAX_PAGE, page_token=token)
            page = await self._tasks.list(caller, listing)
            for task in page.tasks:
                yield task
            if (token := page.next_page_token) is None:
                return


async def _collect(tasks: AsyncIterator[Task], found: list[OpenHandoff]) -> None:
    """Add the hand-offs of `tasks` to those that were found, up to `MAX_HANDOFFS`."""
    async for task in tasks:
        found.extend(_handed_over(task))
        if len(found) >= MAX_HANDOFFS:
            del found[MAX_HANDOFFS:]
            return


def _size_of(handoff: OpenHandoff) -> int:
    return len(handoff.model_dump_json())


def _opened(handoff: OpenHandoff) -> HandoffChange:
    return HandoffChange(name="handoff", data=handoff.model_dump(mode="json", exclude_none=True))


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
