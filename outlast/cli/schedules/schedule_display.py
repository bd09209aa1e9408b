"""How schedules are shown on the command line."""

from collections.abc import Sequence
from datetime import datetime

from rich.markup import escape

from outlast.cli.schedules.schedule_flags import written
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, duration, local_time, one_line, styled_status
from outlast.client import Firing, Schedule

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
        ("with", escape(_given(schedule))),
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


def _given(schedule: Schedule) -> str:
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
