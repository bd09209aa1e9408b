"""Carries out the commands of `outlast schedules`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.markup import escape

from outlast.cli.args import read_arguments
from outlast.cli.errors import BadInput, ExitCode
from outlast.cli.runner import Context
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, duration, local_time, one_line, styled_status
from outlast.client import Firing, Schedule
from outlast.contracts.options import SharedOptions, to_wire


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be started."""

    tool: str | None
    source: str | None
    pairs: Sequence[str]
    batch: str | None
    saved: str | None
    call_options: SharedOptions

    def options(self) -> dict[str, Any]:
        """As the client takes it; nothing when nothing is said. Raises `BadInput`."""
        if sum(target is not None for target in (self.tool, self.batch, self.saved)) > 1:
            raise BadInput("Give a TOOL, --batch or --saved: one of them.")
        if self.batch is not None:
            return {"batch": read_arguments(self.batch, [])}
        arguments = read_arguments(self.source, list(self.pairs))
        if self.saved is not None:
            return {"saved": {"name": self.saved, "arguments": arguments}}
        options = to_wire(SharedOptions, self.call_options)
        if self.tool is None:
            if arguments or options:
                raise BadInput("There are arguments or options of a call, but no TOOL that takes them.")
            return {}
        return {"call": {"tool": self.tool, "arguments": arguments, **options}}


@dataclass(frozen=True, slots=True)
class Times:
    """When it is due, and what it may spend."""

    cron: Sequence[str] | None
    every_seconds: float | None
    time_zone: str | None
    jitter_seconds: float | None
    start_at: datetime | None
    end_at: datetime | None
    overlap: str | None
    catch_up_seconds: float | None
    budget_usd: float | None
    pause_on: Sequence[str] | None
    note: str | None

    def options(self) -> dict[str, Any]:
        """As the client takes them."""
        pause_on = None if self.pause_on is None else [one for one in self.pause_on if one != "none"]
        return {
            "cron": list(self.cron) if self.cron else None,
            "every_seconds": self.every_seconds,
            "time_zone": self.time_zone,
            "jitter_seconds": self.jitter_seconds,
            "start_at": self.start_at,
            "end_at": self.end_at,
            "overlap": self.overlap,
            "catch_up_seconds": self.catch_up_seconds,
            "budget_usd": self.budget_usd,
            "pause_on": pause_on,
            "note": self.note,
        }


def written(document: object) -> str:
    """A part of a schedule, in one line."""
    return json.dumps(document, ensure_ascii=False)


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


SCHEDULE_COLUMNS = (
    Column("SCHEDULE"),
    Column("STATE", rank=1),
    Column("STARTS", rank=3, least=12),
    Column("DUE", rank=4, least=10),
    Column("NEXT", rank=2),
    Column("LAST", rank=5),
    Column("NOTE", rank=6, least=8, most=30),
)
FIRING_COLUMNS = (
    Column("DUE"),
    Column("STATUS", rank=1),
    Column("STARTED", rank=2, least=12),
    Column("COST", rank=3, justify="right"),
    Column("ERROR", rank=4, least=10, most=60),
)
_SHOWN = 5


def schedule_row(schedule: Schedule) -> Sequence[str]:
    """A schedule as a row of a list."""
    return (
        escape(schedule.id),
        _state(schedule),
        escape(_what(schedule)),
        escape(_times(schedule)),
        "" if schedule.paused else _next(schedule),
        ago(schedule.recent[0].started_at) if schedule.recent else "",
        "[red]damaged[/]" if schedule.damaged else escape(one_line(schedule.note)),
    )


def schedule_sheet(schedule: Schedule) -> list[tuple[str, str]]:
    """All that is known of a schedule."""
    coming = "" if schedule.paused else ", ".join(local_time(moment) for moment in schedule.next[:_SHOWN])
    rows = [
        ("schedule", escape(schedule.id)),
        ("note", escape(one_line(schedule.note))),
        ("damaged", escape(schedule.damaged or "")),
        ("state", _state(schedule)),
        ("", escape(one_line(schedule.paused_because))),
        ("starts", escape(_what(schedule))),
        ("with", escape(_input(schedule))),
        ("due", escape(_times(schedule))),
        ("overlap", escape(schedule.overlap)),
        ("catch up", duration(schedule.catch_up_seconds)),
        ("next", coming),
        ("fired", f"{schedule.fired:,}{_left_out(schedule)}"),
        ("cost", _money(schedule)),
        ("made", local_time(schedule.created_at)),
        ("in Temporal", escape(schedule.schedule_url or "")),
    ]
    return [(name, value) for name, value in rows if value]


def firing_row(firing: Firing) -> Sequence[str]:
    """A firing as a row of a list."""
    return (
        local_time(firing.scheduled_at),
        styled_status(firing.status) if firing.status else "[dim]not kept[/]",
        escape(firing.batch_id or firing.task_id or ""),
        f"${firing.cost_usd:g}" if firing.cost_usd else "",
        escape(one_line(firing.error.message if firing.error else None)),
    )


def moments(found: Sequence[datetime]) -> str:
    """Moments, one in a line."""
    return "\n".join(local_time(moment) for moment in found)


def _state(schedule: Schedule) -> str:
    return "[yellow]■ paused[/]" if schedule.paused else "[blue]● active[/]"


def _what(schedule: Schedule) -> str:
    if schedule.batch is not None:
        return f"a batch of {schedule.tool}"
    return f"@{schedule.tool}" if schedule.saved is not None else schedule.tool


def _input(schedule: Schedule) -> str:
    content = schedule.call or schedule.saved or {}
    arguments = content.get("arguments")
    if arguments:
        return written(arguments)
    batch = schedule.batch or {}
    items, rows = batch.get("items"), batch.get("rows")
    return f"{len(items):,} items" if isinstance(items, list) else f"rows of {written(rows)}" if rows else ""


def _times(schedule: Schedule) -> str:
    intervals = [f"every {duration(interval.seconds)}" for interval in schedule.every]
    zone = f" {schedule.time_zone}" if schedule.cron and schedule.time_zone != "UTC" else ""
    return ", ".join([*(f"{cron}{zone}" for cron in schedule.cron), *intervals])


def _next(schedule: Schedule) -> str:
    return local_time(schedule.next[0]) if schedule.next else "never"


def _left_out(schedule: Schedule) -> str:
    left_out = [(schedule.skipped, "skipped"), (schedule.missed, "missed")]
    told = ", ".join(f"{count:,} {word}" for count, word in left_out if count)
    return f" ({told})" if told else ""


def _money(schedule: Schedule) -> str:
    if schedule.spent_usd is None and schedule.budget_usd is None:
        return ""
    spent_usd = 0.0 if schedule.spent_usd is None and not schedule.fired else schedule.spent_usd
    spent = "not known" if spent_usd is None else f"${spent_usd:g}"
    return spent if schedule.budget_usd is None else f"{spent} of ${schedule.budget_usd:g}"
