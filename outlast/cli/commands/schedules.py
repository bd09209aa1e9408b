"""`outlast schedules`: start calls and batches on a schedule."""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, TypedDict, Unpack, cast

import typer
from rich.markup import escape

from outlast.cli.options import BadInput, parse_moment, parse_usd, read_arguments, time_option, until_of
from outlast.cli.runner import Context, complete_tool, server_command
from outlast.cli.show.output import Column, Rows, ago, local_time, one_line, styled_status
from outlast.client import Firing, Schedule
from outlast.contracts.options import ScheduleOptions, SharedOptions, options_of, to_wire
from outlast.wording import duration

_WHEN = "When it is due"
_what = partial(typer.Option, rich_help_panel="What it starts")
_when = partial(typer.Option, rich_help_panel=_WHEN)
_limit = partial(typer.Option, rich_help_panel="Limits")
_COLUMNS = (
    Column("SCHEDULE"),
    Column("STATE", rank=1),
    Column("STARTS", rank=3, least=12),
    Column("DUE", rank=4, least=10),
    Column("NEXT", rank=2),
    Column("LAST", rank=5),
    Column("NOTE", rank=6, least=8, most=30),
)
_FIRING_COLUMNS = (
    Column("DUE"),
    Column("STATUS", rank=1),
    Column("STARTED", rank=2, least=12),
    Column("COST", rank=3, justify="right"),
    Column("ERROR", rank=4, least=10, most=60),
)

Overlap = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "allow_all"]


def _moment(name: str, help_text: str, panel: str | None = None) -> Any:
    return typer.Option(name, parser=parse_moment, metavar="MOMENT", help=help_text, rich_help_panel=panel)


ScheduleArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the schedule.", show_default=False)]
ToolArgument = Annotated[
    str | None,
    typer.Argument(metavar="[TOOL]", help="Tool to call, or an Actor as user/name.", autocompletion=complete_tool),
]
JsonArgument = Annotated[
    str | None, typer.Argument(metavar="[JSON]", help="Its arguments: a JSON object, @FILE, or - for standard input.")
]
ReasonOption = Annotated[str | None, typer.Option(help="The reason; any text.")]
OverlapOption = Annotated[
    Overlap | None, _when(help="What happens if an earlier firing is still running. Default: skip.", show_default=False)
]


class ScheduleFlags(TypedDict, total=False):
    """Flags of the target, the times and the limits of a schedule; the last two are named as in `ScheduleOptions`."""

    arg: Annotated[
        list[str] | None,
        _what("--arg", "-a", help="One argument; dots separate fields of objects.", metavar="NAME=VALUE"),
    ]
    batch: Annotated[
        str | None, _what(help="Start a batch: the body of POST /v1/batches, as JSON or @FILE.", metavar="JSON")
    ]
    saved: Annotated[
        str | None, _what(help="Start a saved call; JSON and --arg override its arguments.", metavar="NAME")
    ]
    cron: Annotated[
        list[str] | None,
        _when(help="Minute, hour, day of month, month, day of week. Repeatable.", metavar="'17 2 * * *'"),
    ]
    every_seconds: Annotated[
        float | None, time_option("An interval of at least a minute: 10m, 2h.", "--every", rich_help_panel=_WHEN)
    ]
    time_zone: Annotated[
        str | None, _when("--time-zone", "--tz", help="Time zone of --cron: Europe/Prague. Default: UTC.")
    ]
    jitter_seconds: Annotated[
        float | None, time_option("Maximum random delay of each firing.", "--jitter", rich_help_panel=_WHEN)
    ]
    start_at: Annotated[datetime | None, _moment("--from", "Nothing is due before this time.", _WHEN)]
    end_at: Annotated[datetime | None, _moment("--end-at", "Nothing is due after this time.", _WHEN)]
    conditions: Annotated[
        list[str] | None,
        _limit("--until", help="Stop condition of each call's run, as in `outlast call`.", metavar="CONDITION"),
    ]
    overlap: OverlapOption
    catch_up_seconds: Annotated[
        float | None,
        time_option(
            "Due times that pass while the server is down are fired up to this much later. Default: 1d.",
            "--catch-up",
            rich_help_panel=_WHEN,
        ),
    ]
    budget_usd: Annotated[
        float | None, _limit("--budget", help="Maximum cost of all firings together.", metavar="USD", parser=parse_usd)
    ]
    pause_on: Annotated[
        list[str] | None,
        _limit(
            help="Pause after an error of this category, or `none`. Default: payment, authentication, permission.",
            metavar="CATEGORY",
        ),
    ]
    note: Annotated[str | None, typer.Option(help="Its purpose; any text.")]


class ChangeFlags(ScheduleFlags, SharedOptions, total=False):
    """Flags of `create` and `update`."""


app = typer.Typer(name="schedules", no_args_is_help=True, help="Start calls and batches on a schedule.")


@server_command(app)
async def create(
    context: Context,
    schedule_id: ScheduleArgument,
    tool: ToolArgument = None,
    arguments: JsonArgument = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    **flags: Unpack[ChangeFlags],
) -> None:
    """Call a tool, or start a batch or a saved call, on a schedule.

    Examples:
      outlast schedules create hourly outlast/sleeper -a seconds=5 --every 1h
      outlast schedules create nightly --saved prices --cron '17 2 * * *'
    """
    options = _options(tool, arguments, flags)
    if not options.keys() & {"call", "batch", "saved"}:
        raise BadInput("A schedule needs something to start: a TOOL, --batch JSON or --saved NAME.")
    context.output.item(await context.client.schedules.create(schedule_id, paused=paused, **options), _sheet)


@server_command(app)
async def update(
    context: Context,
    schedule_id: ScheduleArgument,
    tool: ToolArgument = None,
    arguments: JsonArgument = None,
    **flags: Unpack[ChangeFlags],
) -> None:
    """Change the given settings of a schedule; the others stay."""
    options = _options(tool, arguments, flags)
    context.output.item(await context.client.schedules.update(schedule_id, **options), _sheet)


@server_command(app)
async def ls(context: Context) -> None:
    """List your schedules."""
    async with context.client.schedules.list() as listed:
        found = [schedule async for schedule in listed]
    context.output.listing("schedules", found, _COLUMNS, _row, "No schedules yet.")


@server_command(app)
async def show(context: Context, schedule_id: ScheduleArgument) -> None:
    """Show a schedule: when it is due next, and the results of its latest firings."""
    schedule = await context.client.schedules.get(schedule_id)
    context.output.item(schedule, _sheet)
    if not context.output.as_json and schedule.recent:
        context.output.table(_FIRING_COLUMNS, [_firing_row(firing) for firing in schedule.recent])


@server_command(app, as_json=False)
async def rm(context: Context, schedule_id: ScheduleArgument) -> None:
    """Delete a schedule. Work that it started continues."""
    await context.client.schedules.delete(schedule_id)
    context.output.note(f"{escape(schedule_id)} is deleted. Work that it started continues.")


@server_command(app)
async def pause(context: Context, schedule_id: ScheduleArgument, reason: ReasonOption = None) -> None:
    """Pause a schedule: nothing is due until it is resumed."""
    schedule = await context.client.schedules.pause(schedule_id, reason)
    context.output.done(schedule.document(), f"{escape(schedule_id)} is paused.")


@server_command(app)
async def resume(context: Context, schedule_id: ScheduleArgument, reason: ReasonOption = None) -> None:
    """Resume a paused schedule."""
    schedule = await context.client.schedules.resume(schedule_id, reason)
    context.output.done(schedule.document(), f"{escape(schedule_id)} is resumed.")


@server_command(app)
async def trigger(context: Context, schedule_id: ScheduleArgument) -> None:
    """Fire a schedule now, even if it is paused."""
    schedule = await context.client.schedules.trigger(schedule_id)
    context.output.done(schedule.document(), f"{escape(schedule_id)} is due now.")
    context.suggest(watch=f"schedules show {schedule_id}")


@server_command(app)
async def backfill(
    context: Context,
    schedule_id: ScheduleArgument,
    start: Annotated[datetime, _moment("--from", "Start of the period.")],
    end: Annotated[datetime, _moment("--until", "End of the period.")],
    overlap: OverlapOption = None,
) -> None:
    """Fire a schedule for each time at which it was due in a period."""
    found = await context.client.schedules.backfill(schedule_id, start, end, overlap=overlap)
    note = f"{escape(schedule_id)} was due {len(found):,} times in this period, and now fires for each of them."
    _show_times(context, found, note)


@server_command(app)
async def times(
    context: Context,
    schedule_id: ScheduleArgument,
    start: Annotated[datetime | None, _moment("--from", "Start of the period. Default: now.")] = None,
    end: Annotated[datetime | None, _moment("--until", "End of the period. Default: a week later.")] = None,
) -> None:
    """List the times at which a schedule is due in a period."""
    found = await context.client.schedules.times(schedule_id, start, end)
    _show_times(context, found, "" if found else f"{escape(schedule_id)} is not due in this period.")


def _show_times(context: Context, found: Sequence[datetime], note: str) -> None:
    if context.output.as_json:
        context.output.document({"times": [moment.isoformat() for moment in found]})
        return
    if note:
        context.output.note(note)
    if found:
        context.output.text("\n".join(map(local_time, found)))


def _options(tool: str | None, source: str | None, flags: ChangeFlags) -> ScheduleOptions:
    """Return the options of a schedule in the form of the client. Raises `BadInput`."""
    given: dict[str, Any] = {name: value for name, value in flags.items() if name in options_of(ScheduleOptions)}
    conditions = flags.get("conditions") or []
    # A time in `--until` is a former form of `--end-at`.
    moments = [parse_moment(text) for text in conditions if "=" not in text]
    until = until_of([text for text in conditions if "=" in text])
    given |= {"end_at": moments[-1]} if moments else {}
    if "pause_on" in given:
        given["pause_on"] = [one for one in given["pause_on"] if one != "none"]
    targets = {"call": tool, "batch": given.pop("batch", None), "saved": given.pop("saved", None)}
    if sum(target is not None for target in targets.values()) > 1:
        raise BadInput("Give only one of TOOL, --batch and --saved.")
    if targets["batch"] is not None:
        given["batch"] = read_arguments(targets["batch"], [])
        return cast(ScheduleOptions, given)
    arguments = read_arguments(source, flags.get("arg") or [])
    if targets["saved"] is not None:
        given["saved"] = {"name": targets["saved"], "arguments": arguments}
        return cast(ScheduleOptions, given)
    of_call = {name: value for name, value in flags.items() if name in options_of(SharedOptions)}
    wire = to_wire(SharedOptions, {**of_call, "until": until})
    if tool is not None:
        given["call"] = {"tool": tool, "arguments": arguments, **wire}
    elif arguments or wire:
        raise BadInput("There are arguments or options of a call, but no TOOL.")
    return cast(ScheduleOptions, given)


def _row(schedule: Schedule) -> Sequence[str]:
    coming = local_time(schedule.next[0]) if schedule.next else "never"
    return (
        escape(schedule.id),
        _state(schedule),
        escape(_target(schedule)),
        escape(_due(schedule)),
        "" if schedule.paused else coming,
        ago(schedule.recent[0].started_at) if schedule.recent else "",
        "[red]damaged[/]" if schedule.damaged else escape(one_line(schedule.note)),
    )


def _sheet(schedule: Schedule) -> Rows:
    left_out = [(schedule.skipped, "skipped"), (schedule.missed, "missed")]
    counts = ", ".join(f"{count:,} {word}" for count, word in left_out if count)
    return [
        ("schedule", escape(schedule.id)),
        ("note", escape(one_line(schedule.note))),
        ("damaged", escape(schedule.damaged or "")),
        ("state", _state(schedule)),
        ("", escape(one_line(schedule.paused_because))),
        ("starts", escape(_target(schedule))),
        ("with", escape(_input(schedule))),
        ("due", escape(_due(schedule))),
        ("overlap", escape(schedule.overlap)),
        ("catch up", duration(schedule.catch_up_seconds)),
        ("next", "" if schedule.paused else ", ".join(map(local_time, schedule.next[:5]))),
        ("fired", f"{schedule.fired:,}{f' ({counts})' if counts else ''}"),
        ("cost", _money(schedule)),
        ("created", local_time(schedule.created_at)),
        ("in Temporal", escape(schedule.schedule_url or "")),
    ]


def _firing_row(firing: Firing) -> Sequence[str]:
    return (
        local_time(firing.scheduled_at),
        styled_status(firing.status) if firing.status else "[dim]not kept[/]",
        escape(firing.batch_id or firing.task_id or ""),
        f"${firing.cost_usd:g}" if firing.cost_usd else "",
        escape(one_line(firing.error.message if firing.error else None)),
    )


def _state(schedule: Schedule) -> str:
    return "[yellow]■ paused[/]" if schedule.paused else "[blue]● active[/]"


def _target(schedule: Schedule) -> str:
    if schedule.batch is not None:
        return f"a batch of {schedule.tool}"
    return f"@{schedule.tool}" if schedule.saved is not None else schedule.tool


def _input(schedule: Schedule) -> str:
    content = schedule.call or schedule.saved or {}
    if arguments := content.get("arguments"):
        return json.dumps(arguments, ensure_ascii=False)
    batch = schedule.batch or {}
    items, rows = batch.get("items"), batch.get("rows")
    if isinstance(items, list):
        return f"{len(items):,} items"
    return f"rows of {json.dumps(rows, ensure_ascii=False)}" if rows else ""


def _due(schedule: Schedule) -> str:
    zone = f" {schedule.time_zone}" if schedule.cron and schedule.time_zone != "UTC" else ""
    intervals = [f"every {duration(interval.seconds)}" for interval in schedule.every]
    return ", ".join([*(f"{cron}{zone}" for cron in schedule.cron), *intervals])


def _money(schedule: Schedule) -> str:
    if schedule.spent_usd is None and schedule.budget_usd is None:
        return ""
    spent_usd = 0.0 if schedule.spent_usd is None and not schedule.fired else schedule.spent_usd
    spent = "not known" if spent_usd is None else f"${spent_usd:g}"
    return spent if schedule.budget_usd is None else f"{spent} of ${schedule.budget_usd:g}"
