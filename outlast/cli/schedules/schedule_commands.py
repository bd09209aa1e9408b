"""Carries out the commands of `outlast schedules`."""

from datetime import datetime

from rich.markup import escape

from outlast.cli.errors import BadInput, ExitCode
from outlast.cli.running import Context
from outlast.cli.schedules.schedule_display import (
    FIRING_COLUMNS,
    SCHEDULE_COLUMNS,
    firing_row,
    moments,
    schedule_row,
    schedule_sheet,
)
from outlast.cli.schedules.schedule_flags import Target, Times
from outlast.client import Schedule


async def create(context: Context, schedule_id: str, target: Target, times: Times, *, paused: bool) -> ExitCode:
    """Make a schedule."""
    what = target.options()
    if not what:
        raise BadInput("A schedule needs something to start: a TOOL, --batch JSON or --saved NAME.")
    schedule = await context.client.schedules.create(schedule_id, paused=paused, **what, **times.options())
    _show(context, schedule)
    return ExitCode.OK


async def update(context: Context, schedule_id: str, target: Target, times: Times) -> ExitCode:
    """Change a schedule."""
    _show(context, await context.client.schedules.update(schedule_id, **target.options(), **times.options()))
    return ExitCode.OK


async def list_schedules(context: Context) -> ExitCode:
    """Print all schedules."""
    async with context.client.schedules.list() as found:
        schedules = [schedule async for schedule in found]
    if context.output.as_json:
        context.output.document({"schedules": [schedule.document() for schedule in schedules]})
    elif not schedules:
        context.output.note("No schedules yet.")
    else:
        context.output.table(SCHEDULE_COLUMNS, [schedule_row(schedule) for schedule in schedules])
    return ExitCode.OK


async def show(context: Context, schedule_id: str) -> ExitCode:
    """Print one schedule, with its latest firings."""
    schedule = await context.client.schedules.get(schedule_id)
    _show(context, schedule)
    if not context.output.as_json and schedule.recent:
        context.output.table(FIRING_COLUMNS, [firing_row(firing) for firing in schedule.recent])
    return ExitCode.OK


async def remove(context: Context, schedule_id: str) -> ExitCode:
    """Delete a schedule."""
    await context.client.schedules.delete(schedule_id)
    context.output.note(f"{escape(schedule_id)} is deleted. What it has started goes on.")
    return ExitCode.OK


async def pause(context: Context, schedule_id: str, reason: str | None) -> ExitCode:
    """Pause a schedule."""
    _tell(context, await context.client.schedules.pause(schedule_id, reason), "is paused.")
    return ExitCode.OK


async def resume(context: Context, schedule_id: str, reason: str | None) -> ExitCode:
    """Have a paused schedule go on."""
    _tell(context, await context.client.schedules.resume(schedule_id, reason), "goes on.")
    return ExitCode.OK


async def trigger(context: Context, schedule_id: str) -> ExitCode:
    """Have a schedule due now."""
    schedule = await context.client.schedules.trigger(schedule_id)
    _tell(context, schedule, "is due now.")
    if not context.output.as_json:
        context.output.command(f"watch  {context.options.command(f'schedules show {schedule_id}')}")
    return ExitCode.OK


async def backfill(context: Context, schedule_id: str, start: datetime, end: datetime, overlap: str | None) -> ExitCode:
    """Have done what the schedule would have done."""
    found = await context.client.schedules.backfill(schedule_id, start, end, overlap=overlap)
    if context.output.as_json:
        context.output.document({"times": [moment.isoformat() for moment in found]})
    else:
        context.output.note(f"{escape(schedule_id)} does what it would have done {len(found):,} times.")
        context.output.text(moments(found))
    return ExitCode.OK


async def times(context: Context, schedule_id: str, start: datetime | None, end: datetime | None) -> ExitCode:
    """Print when a schedule is due."""
    found = await context.client.schedules.times(schedule_id, start, end)
    if context.output.as_json:
        context.output.document({"times": [moment.isoformat() for moment in found]})
    elif not found:
        context.output.note(f"{escape(schedule_id)} is not due then.")
    else:
        context.output.text(moments(found))
    return ExitCode.OK


def _show(context: Context, schedule: Schedule) -> None:
    if context.output.as_json:
        context.output.document(schedule.document())
    else:
        context.output.sheet(schedule_sheet(schedule))


def _tell(context: Context, schedule: Schedule, what: str) -> None:
    if context.output.as_json:
        context.output.document(schedule.document())
    else:
        context.output.note(f"{escape(schedule.id)} {what}")
