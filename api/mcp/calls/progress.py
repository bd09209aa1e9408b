"""Telling a client how far its call is, while it waits: as progress, and as log messages where it wants those."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, get_args

import mcp_types as types

from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client
from outlast.api.mcp.protocol.eras import Context, is_modern
from outlast.api.tasks.client import TaskClient

_LEVELS: tuple[str, ...] = get_args(types.LoggingLevel)
_LOG_LEVEL_META = "io.modelcontextprotocol/logLevel"
_LAST_WORDS_SECONDS = 2.0
"""How long what was said before the answer may take to be told; the answer waits for it."""


class Progress:
    """Follows one task for one request, while the block runs."""

    def __init__(self, ctx: Context, client: Client, tasks: TaskClient, task_id: str) -> None:
        """Tell the client of `ctx`, when it has asked for progress or for log messages."""
        self._ctx = ctx
        self._client = client
        self._tasks = tasks
        self._task_id = task_id
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin."""
        if self._wants_progress or self._wants_log:
            self._telling = asyncio.create_task(self._tell())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        if self._telling is not None:
            self._telling.cancel()

    async def to_its_end(self) -> None:
        """The tool has answered: let what it said before arrive first."""
        if self._telling is not None:
            await asyncio.wait({self._telling}, timeout=_LAST_WORDS_SECONDS)

    @property
    def _wants_progress(self) -> bool:
        return bool(self._ctx.meta) and "progress_token" in (self._ctx.meta or {})

    @property
    def _wants_log(self) -> bool:
        """2025-11-25: after `logging/setLevel`. 2026-07-28: where the request itself asks for it."""
        meta: Mapping[str, Any] = self._ctx.meta or {}
        level = meta.get(_LOG_LEVEL_META) if is_modern(self._ctx) else self._client.connection.log_level
        return level in _LEVELS and _LEVELS.index(level) <= _LEVELS.index("info")

    async def _tell(self) -> None:
        reached = 0.0
        with suppress(ApiError):
            async for event in await self._tasks.events(self._client.caller, self._task_id):
                if event.name == "task_completed":
                    return
                message = _message(event.name, event.data)
                if message is None:
                    continue
                done = event.data.get("done")
                reached = float(done) if isinstance(done, int | float) else reached + 1
                await self._say(reached, _number(event.data.get("total")), message)

    async def _say(self, reached: float, total: float | None, message: str) -> None:
        session = self._ctx.session
        if self._wants_progress:
            await session.report_progress(reached, total, message)
        if self._wants_log:
            params = types.LoggingMessageNotificationParams(level="info", logger="outlast", data=message)
            notification = types.LoggingMessageNotification(params=params)
            await session.send_notification(notification, related_request_id=self._ctx.request_id)


def _message(name: str, data: Mapping[str, object]) -> str | None:
    if name == "run_started":
        return f"Run {data.get('run_id')} has started"
    if name == "status_message":
        return str(data.get("status_message"))
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
