"""Telling a client how far its call is, while it waits."""

import logging
from collections.abc import Mapping

from activities.models import Caller
from api.mcp.eras import Context
from api.tasks import TaskClient

log = logging.getLogger("outlast.mcp")


async def report_progress(ctx: Context, tasks: TaskClient, caller: Caller, task_id: str) -> None:
    """Send `notifications/progress` for each event of the task, when the client has asked for progress."""
    if not ctx.meta or "progress_token" not in ctx.meta:
        return
    step = 0
    async for event in await tasks.events(caller, task_id):
        message = _message(event.name, event.data)
        if message is None:
            continue
        step += 1
        await ctx.session.report_progress(step, message=message)


def _message(name: str, data: Mapping[str, object]) -> str | None:
    if name == "run_started":
        return f"Run {data.get('run_id')} has started"
    if name == "status_message":
        return str(data.get("status_message"))
    return None
