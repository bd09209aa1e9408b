"""A caller's open hand-offs, and the approvals that it may give to others, as a list or as a stream of changes.

They are read from Temporal's visibility, at intervals while a client follows.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from outlast.api.access.limits.caller_limits import UnreadBytes
from outlast.api.access.principal import Principal
from outlast.api.errors import TemporalUnavailable
from outlast.api.tasks.client import MAX_PAGE, TaskClient
from outlast.api.temporal.history import LISTS
from outlast.api.temporal.task_events import handed_over
from outlast.contracts.handoffs import OpenHandoff
from outlast.contracts.tasks import HandoffChange, Task, TaskListing
from outlast.workflows.contracts.tool_calls import TaskStatus

MAX_HANDOFFS: Final = 1_000
"""Maximum of its own hand-offs, and of those of others, newest first."""
LOOK_SECONDS: Final = 1.0
"""Delay until followers see a new hand-off, while there are few followers."""
_EXPECTED_BYTES: Final = 64 * 1024
_COPIES: Final = 4
"""Memory that an open hand-off takes while it is sent, in multiples of its size as JSON."""
_Identity = tuple[str, str, datetime | None]


@dataclass(eq=False)
class Handoffs:
    """Finds the open hand-offs of callers."""

    tasks: TaskClient
    unread: UnreadBytes

    async def open(
        self, principal: Principal, tools: Sequence[str] = (), *, caller: str | None = None
    ) -> list[OpenHandoff]:
        """The caller's open hand-offs, then other callers' approvals that it can give: at most `MAX_HANDOFFS` each.

        With `caller` and the scope `admin`, those of that caller, or of all (`*`). Raises `ForbiddenScope`,
        `TemporalUnavailable`, and `BadRequest` for an invalid tool name.
        """
        own: list[OpenHandoff] = []
        others: list[OpenHandoff] = []
        for tool in dict.fromkeys(tools) or (None,):
            await _collect(self._waiting(principal, tool, caller), own)
            if caller is not None:
                continue
            await _collect(self.tasks.to_approve(principal, tool=tool), others)
        return own + others

    async def follow(self, principal: Principal, tools: Sequence[str] = ()) -> AsyncGenerator[HandoffChange]:
        """The open hand-offs, then each change, without an end. Silent during an outage of Temporal."""
        known: dict[_Identity, HandoffChange] = {}
        room, expected_bytes = self.unread.room_of(principal.caller.id), _EXPECTED_BYTES
        with LISTS.follower():
            while True:
                with suppress(TemporalUnavailable):
                    async with room.hold(expected_bytes) as held:
                        now = {handoff.identity: handoff for handoff in await self.open(principal, tools)}
                        size = sum(len(handoff.model_dump_json()) for handoff in now.values())
                        expected_bytes = max(_EXPECTED_BYTES, _COPIES * size)
                        held.holds(expected_bytes)
                        for identity in [each for each in known if each not in now]:
                            yield known.pop(identity)
                        for identity in list(now):
                            handoff = now.pop(identity)
                            if identity not in known:
                                known[identity] = _closed(handoff)
                                data = handoff.model_dump(mode="json", exclude_none=True)
                                yield HandoffChange(name="handoff", data=data)
                            del handoff
                await asyncio.sleep(LISTS.pause_seconds(LOOK_SECONDS))

    async def _waiting(self, principal: Principal, tool: str | None, caller: str | None) -> AsyncIterator[Task]:
        token: str | None = None
        while True:
            listing = TaskListing(
                status=(TaskStatus.INPUT_REQUIRED,), tool=tool, caller=caller, page_size=MAX_PAGE, page_token=token
            )
            page = await self.tasks.list(principal, listing)
            for task in page.tasks:
                yield task
            if (token := page.next_page_token) is None:
                return


async def _collect(tasks: AsyncIterator[Task], found: list[OpenHandoff]) -> None:
    """Add the hand-offs of `tasks` to those that were found, up to `MAX_HANDOFFS`."""
    async for task in tasks:
        facts = {
            "task_id": task.id,
            "caller": task.caller,
            "session_id": task.session_id,
            "created_at": task.created_at,
        }
        for key, request in (task.input_requests or {}).items():
            if request.handoff is not None:
                found.append(OpenHandoff.model_validate({**handed_over(key, request).model_dump(), **facts}))
        if len(found) >= MAX_HANDOFFS:
            del found[MAX_HANDOFFS:]
            return


def _closed(handoff: OpenHandoff) -> HandoffChange:
    data = handoff.model_dump(mode="json", include={"task_id", "key", "deadline"}, exclude_none=True)
    return HandoffChange(name="handoff_closed", data=data)
