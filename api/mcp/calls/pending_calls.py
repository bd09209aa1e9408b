"""Calls whose clients wait for the answer in the call itself, so that `notifications/cancelled` finds their tasks."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from mcp.shared.exceptions import MCPError

from outlast.api.contracts.tasks import Task
from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client
from outlast.api.mcp.protocol.eras import Context, request_header
from outlast.api.tasks.client import TaskClient

_MAX_CALLS = 50_000
_Key = tuple[str, str]


class PlainCalls:
    """Knows the task behind each request that is being answered.

    The handler of a cancelled request is interrupted before the notification is seen here: what was interrupted stays
    known. A request that has no session (2026-07-28 over HTTP) cannot be named by another request, and is not kept.
    """

    def __init__(self, tasks: TaskClient) -> None:
        """Cancel through `tasks`."""
        self._tasks = tasks
        self._known: OrderedDict[_Key, tuple[Client, asyncio.Task[Task]]] = OrderedDict()

    async def started(self, ctx: Context, client: Client, start: Coroutine[Any, Any, Task]) -> Task:
        """The task of the request. It starts even when the client goes away meanwhile."""
        starting = asyncio.create_task(start)
        starting.add_done_callback(_seen)
        key = _key(ctx, client, str(ctx.request_id))
        if key is not None:
            self._known[key] = (client, starting)
            if len(self._known) > _MAX_CALLS:
                self._known.popitem(last=False)
        return await asyncio.shield(starting)

    def answered(self, ctx: Context, client: Client) -> None:
        """The request has its answer; there is nothing left to cancel."""
        key = _key(ctx, client, str(ctx.request_id))
        if key is not None:
            self._known.pop(key, None)

    async def cancel(self, ctx: Context, client: Client, request_id: str) -> None:
        """Cancel the task of a request that the same client has sent over the same connection."""
        key = _key(ctx, client, request_id)
        known = self._known.pop(key, None) if key is not None else None
        if known is None:
            return
        owner, starting = known
        with suppress(ApiError, MCPError):
            task = await starting
            await self._tasks.cancel_if_open(owner.caller, task.id)


def _key(ctx: Context, client: Client, request_id: str) -> _Key | None:
    if ctx.request is not None and request_header(ctx, "mcp-session-id") is None:
        return None
    return (client.connection.key, request_id)


def _seen(starting: "asyncio.Task[Task]") -> None:
    """Take note of the error: nobody else does when the request was interrupted."""
    if not starting.cancelled():
        starting.exception()
