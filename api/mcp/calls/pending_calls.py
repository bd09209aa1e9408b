"""Requests whose clients wait for the result of `tools/call`, so that `notifications/cancelled` finds their tasks."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from cachetools import LRUCache
from mcp.shared.exceptions import MCPError

from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client, ConnectionKey, http_request
from outlast.api.mcp.protocol.versions import Context, session_of
from outlast.api.tasks.client import TaskClient
from outlast.contracts.tasks import Task

_MAX_CALLS = 50_000
_Key = tuple[ConnectionKey, str]


class PendingCalls:
    """Remembers the task of each request that has no result yet.

    The SDK interrupts the handler of a cancelled request before the notification arrives here, so an interrupted
    request stays remembered. A request without a session (2026-07-28 over HTTP) cannot be named by another request,
    and is not remembered.
    """

    def __init__(self, tasks: TaskClient) -> None:
        """Cancel tasks through `tasks`."""
        self._tasks = tasks
        self._pending: LRUCache[_Key, tuple[Client, asyncio.Task[Task]]] = LRUCache(_MAX_CALLS)

    async def start(self, ctx: Context, client: Client, start: Coroutine[Any, Any, Task]) -> Task:
        """Start the task of the request and remember it. The task starts even if the client disconnects meanwhile."""
        starting = asyncio.create_task(start)
        starting.add_done_callback(_retrieve_error)
        key = _key_of(ctx, client, str(ctx.request_id))
        if key is not None:
            self._pending[key] = (client, starting)
        return await asyncio.shield(starting)

    def forget(self, ctx: Context, client: Client) -> None:
        """The request has its result: there is nothing left to cancel."""
        key = _key_of(ctx, client, str(ctx.request_id))
        if key is not None:
            self._pending.pop(key, None)

    async def cancel(self, ctx: Context, client: Client, request_id: str) -> None:
        """Cancel the task of a request that the same client sent over the same connection, if it is pending."""
        key = _key_of(ctx, client, request_id)
        pending = self._pending.pop(key, None) if key is not None else None
        if pending is None:
            return
        owner, starting = pending
        with suppress(ApiError, MCPError):
            task = await starting
            await self._tasks.cancel_if_open(owner.caller, task.id)


def _key_of(ctx: Context, client: Client, request_id: str) -> _Key | None:
    request = http_request(ctx)
    if request is not None and session_of(request) is None:
        return None
    return (client.connection.key, request_id)


def _retrieve_error(starting: "asyncio.Task[Task]") -> None:
    """Mark the error as retrieved: when the request was interrupted, nobody else awaits it."""
    if not starting.cancelled():
        starting.exception()
