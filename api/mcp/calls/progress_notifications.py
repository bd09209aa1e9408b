"""Progress of a call while the client waits: `notifications/progress`, and log messages if the client wants them."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, get_args

import mcp_types as types

from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol.progress_notes import (
    ProgressStep,
    ProgressSteps,
    progress_notification,
    wants_progress,
)
from outlast.api.mcp.protocol.versions import Context, is_modern
from outlast.api.tasks.client import TaskClient

_LEVELS: tuple[str, ...] = get_args(types.LoggingLevel)
_LOG_LEVEL_META = "io.modelcontextprotocol/logLevel"
_FLUSH_SECONDS = 10.0
"""How long a finished call waits for its remaining progress notifications to be sent."""


class ProgressReporter:
    """Reports the progress of one task to one request, while the `async with` block runs."""

    def __init__(
        self, ctx: Context, client: Client, tasks: TaskClient, task_id: str, *, actor: str | None = None
    ) -> None:
        """Report to the client of `ctx`, if the request asks for progress or for log messages.

        `actor` is the Actor that the call runs, as it was named.
        """
        self._actor = actor
        self._ctx = ctx
        self._client = client
        self._tasks = tasks
        self._task_id = task_id
        self._reporting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start reporting."""
        if wants_progress(self._ctx) or self._wants_log:
            self._reporting = asyncio.create_task(self._report_events())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop reporting."""
        if self._reporting is not None:
            self._reporting.cancel()

    async def flush(self) -> None:
        """Wait until the notifications from before the result are sent, at most 10 seconds."""
        if self._reporting is not None:
            await asyncio.wait({self._reporting}, timeout=_FLUSH_SECONDS)

    @property
    def _wants_log(self) -> bool:
        """2025-11-25: after `logging/setLevel`. 2026-07-28: when the request's `_meta` has a log level."""
        meta: Mapping[str, Any] = self._ctx.meta or {}
        level = meta.get(_LOG_LEVEL_META) if is_modern(self._ctx) else self._client.connection.log_level
        return level in _LEVELS and _LEVELS.index(level) <= _LEVELS.index("info")

    async def _report_events(self) -> None:
        steps = ProgressSteps(dialect_of(self._client.mode).progress, self._actor)
        with suppress(ApiError):
            async for event in await self._tasks.events(self._client.caller, self._task_id):
                if event.name == "task_completed":
                    return
                step = steps.after(event.name, event.data)
                if step is not None:
                    await self._send(step)

    async def _send(self, step: ProgressStep) -> None:
        session, note = self._ctx.session, step.note
        if wants_progress(self._ctx) and note.meta is None:
            await session.report_progress(step.progress, note.total, note.message)
        elif wants_progress(self._ctx):
            notification = progress_notification(self._ctx, step, note.meta or {})
            await session.send_notification(notification, related_request_id=self._ctx.request_id)
        if self._wants_log:
            params = types.LoggingMessageNotificationParams(level="info", logger="outlast", data=note.message)
            logged = types.LoggingMessageNotification(params=params)
            await session.send_notification(logged, related_request_id=self._ctx.request_id)
