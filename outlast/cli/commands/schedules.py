"""`outlast schedules`: have calls and batches started when they are due."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Unpack

import typer
from pydantic import JsonValue

from outlast.cli.args import parse_duration, parse_usd, until_of
from outlast.cli.commands import schedule_actions
from outlast.cli.commands.schedule_actions import Target, Times
from outlast.cli.connection import complete_tool
from outlast.cli.errors import ExitCode
from outlast.cli.runner import Context, server_command
from outlast.contracts.options import SharedOptions

_WHAT = "What it starts"
_WHEN = "When it is due"
_LIMITS = "Limits"

Overlap = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "allow_all"]


def parse_moment(text: str) -> datetime:
    """A moment as ISO 8601; without a time zone it is this machine's time. Raises `typer.BadParameter`."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        example = "2026-03-29, 2026-03-29T02:30 or 2026-03-29T02:30+01:00"
        raise typer.BadParameter(f"{text!r} is no moment; write {example}.") from None


def stop_conditions(texts: Sequence[str], end: datetime | None) -> tuple[dict[str, JsonValue] | None, datetime | None]:
    """The conditions of `--until`, and the end of the schedule. A moment in `--until` is a former form of `--end-at`.

    Raises `BadInput`.
    """
    moments = [parse_moment(text) for text in texts if "=" not in text]
    return until_of([text for text in texts if "=" in text]), moments[-1] if moments else end


def _what(help_text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_WHAT, **options)


def _when(help_text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_WHEN, **options)


def _limit(help_text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_LIMITS, **options)


ScheduleArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the schedule.", show_default=False)]
ToolArgument = Annotated[
    str | None,
    typer.Argument(metavar="[TOOL]", help="Tool to call, or an Actor as user/name.", autocompletion=complete_tool),
]
JsonArgument = Annotated[
    str | None, typer.Argument(metavar="[JSON]", help="Its arguments: a JSON object, @FILE, or - for standard input.")
]
PairOption = Annotated[
    list[str] | None, _what("One argument; dots reach into objects.", "--arg", "-a", metavar="NAME=VALUE")
]
BatchOption = Annotated[
    str | None, _what("Start a batch: the body of POST /v1/batches, as JSON or @FILE.", "--batch", metavar="JSON")
]
SavedOption = Annotated[str | None, _what("Start a saved call; JSON and --arg go over its arguments.", metavar="NAME")]
CronOption = Annotated[
    list[str] | None, _when("Minute, hour, day of month, month, day of week. Repeatable.", metavar="'17 2 * * *'")
]
EveryOption = Annotated[
    float | None, _when("An interval, of a minute at least: 10m, 2h.", parser=parse_duration, metavar="TIME")
]
TimeZoneOption = Annotated[str | None, _when("Of --cron: Europe/Prague (UTC).", "--time-zone", "--tz")]
JitterOption = Annotated[
    float | None, _when("Begin up to so much later, at random.", parser=parse_duration, metavar="TIME")
]
FromOption = Annotated[datetime | None, _when("Not before.", "--from", parser=parse_moment, metavar="MOMENT")]
EndAtOption = Annotated[datetime | None, _when("Not after.", "--end-at", parser=parse_moment, metavar="MOMENT")]
UntilOption = Annotated[
    list[str] | None,
    _limit("Stop each call's run when it has enough, as for `outlast call`: rows=100.", "--until", metavar="CONDITION"),
]
OverlapOption = Annotated[
    Overlap | None, _when("When it is due while an earlier firing is under way (skip).", show_default=False)
]
CatchUpOption = Annotated[
    float | None,
    _when("How late what was due while the server was away is started (1d).", parser=parse_duration, metavar="TIME"),
]
BudgetOption = Annotated[float | None, _limit("What all firings may cost together.", metavar="USD", parser=parse_usd)]
PauseOnOption = Annotated[
    list[str] | None,
    _limit("Pause after such a failure; `none` for none (payment, authentication, permission).", metavar="CATEGORY"),
]
NoteOption = Annotated[str | None, typer.Option(help="What it is for; any text.")]
PausedOption = Annotated[bool, typer.Option("--paused", help="Make it paused.")]
ReasonOption = Annotated[str | None, typer.Option(help="Why; any text.")]
StartOption = Annotated[datetime, typer.Option("--from", parser=parse_moment, metavar="MOMENT", help="From then on.")]
EndOption = Annotated[datetime, typer.Option("--until", parser=parse_moment, metavar="MOMENT", help="Until then.")]


app = typer.Typer(no_args_is_help=True, help="Have calls and batches started when they are due.")


@app.command()
@server_command()
async def create(
    context: Context,
    schedule_id: ScheduleArgument,
    tool: ToolArgument = None,
    arguments: JsonArgument = None,
    arg: PairOption = None,
    batch: BatchOption = None,
    saved: SavedOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    time_zone: TimeZoneOption = None,
    jitter: JitterOption = None,
    start: FromOption = None,
    end: EndAtOption = None,
    stop: UntilOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    budget: BudgetOption = None,
    pause_on: PauseOnOption = None,
    note: NoteOption = None,
    paused: PausedOption = False,
    **options: Unpack[SharedOptions],
) -> ExitCode:
    """Have a tool called, a batch or a saved call started, whenever it is due.

    Examples:
      outlast schedules create nightly outlast/sleeper -a seconds=5 --cron '17 2 * * *' --tz Europe/Prague
      outlast schedules create hourly --saved prices --every 1h --budget 20
    """
    conditions, end = stop_conditions(stop or (), end)
    target = Target(tool, arguments, tuple(arg or ()), batch, saved, {**options, "until": conditions})
    times = Times(cron, every, time_zone, jitter, start, end, overlap, catch_up, budget, pause_on, note)
    return await schedule_actions.create(context, schedule_id, target, times, paused=paused)


@app.command()
@server_command()
async def update(
    context: Context,
    schedule_id: ScheduleArgument,
    tool: ToolArgument = None,
    arguments: JsonArgument = None,
    arg: PairOption = None,
    batch: BatchOption = None,
    saved: SavedOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    time_zone: TimeZoneOption = None,
    jitter: JitterOption = None,
    start: FromOption = None,
    end: EndAtOption = None,
    stop: UntilOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    budget: BudgetOption = None,
    pause_on: PauseOnOption = None,
    note: NoteOption = None,
    **options: Unpack[SharedOptions],
) -> ExitCode:
    """Change what is named here; the rest stays."""
    conditions, end = stop_conditions(stop or (), end)
    target = Target(tool, arguments, tuple(arg or ()), batch, saved, {**options, "until": conditions})
    times = Times(cron, every, time_zone, jitter, start, end, overlap, catch_up, budget, pause_on, note)
    return await schedule_actions.update(context, schedule_id, target, times)


@app.command()
@server_command()
async def ls(
    context: Context,
) -> ExitCode:
    """List your schedules."""
    return await schedule_actions.list_schedules(context)


@app.command()
@server_command()
async def show(
    context: Context,
    schedule_id: ScheduleArgument,
) -> ExitCode:
    """Show a schedule: when it is due next, and what came of its latest firings."""
    return await schedule_actions.show(context, schedule_id)


@app.command()
@server_command(as_json=False)
async def rm(
    context: Context,
    schedule_id: ScheduleArgument,
) -> ExitCode:
    """Delete a schedule. What it has started goes on."""
    return await schedule_actions.remove(context, schedule_id)


@app.command()
@server_command()
async def pause(
    context: Context,
    schedule_id: ScheduleArgument,
    reason: ReasonOption = None,
) -> ExitCode:
    """Have nothing due until the schedule is resumed."""
    return await schedule_actions.pause(context, schedule_id, reason)


@app.command()
@server_command()
async def resume(
    context: Context,
    schedule_id: ScheduleArgument,
    reason: ReasonOption = None,
) -> ExitCode:
    """Have a paused schedule go on."""
    return await schedule_actions.resume(context, schedule_id, reason)


@app.command()
@server_command()
async def trigger(
    context: Context,
    schedule_id: ScheduleArgument,
) -> ExitCode:
    """Have a schedule due now, also while it is paused."""
    return await schedule_actions.trigger(context, schedule_id)


@app.command()
@server_command()
async def backfill(
    context: Context,
    schedule_id: ScheduleArgument,
    start: StartOption,
    end: EndOption,
    overlap: OverlapOption = None,
) -> ExitCode:
    """Do what the schedule would have done in a part of time, one after the other."""
    return await schedule_actions.backfill(context, schedule_id, start, end, overlap)


@app.command()
@server_command()
async def times(
    context: Context,
    schedule_id: ScheduleArgument,
    start: Annotated[
        datetime | None,
        typer.Option("--from", parser=parse_moment, metavar="MOMENT", help="From then on (now)."),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option("--until", parser=parse_moment, metavar="MOMENT", help="Until then (a week later)."),
    ] = None,
) -> ExitCode:
    """Show when a schedule is due, or was."""
    return await schedule_actions.times(context, schedule_id, start, end)
