"""`outlast schedules`: have calls and batches started when they are due."""

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Annotated, Any

import typer

from outlast.cli.errors import ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption, Options, TokenOption, UrlOption
from outlast.cli.running import Context, run_action
from outlast.cli.schedules import options as given
from outlast.cli.schedules.schedule_flags import Target, Times

app = typer.Typer(no_args_is_help=True, help="Have calls and batches started when they are due.")


def _run(options: Options, name: str, *arguments: Any, **more: Any) -> None:
    """Run an action of `schedule_commands`, which is loaded by then: it needs httpx."""

    async def action(context: Context) -> ExitCode:
        from outlast.cli.schedules import schedule_commands  # noqa: PLC0415

        carry_out: Callable[..., Coroutine[None, None, ExitCode]] = getattr(schedule_commands, name)
        return await carry_out(context, *arguments, **more)

    run_action(options, action)


@app.command()
def create(
    schedule_id: given.ScheduleArgument,
    tool: given.ToolArgument = None,
    arguments: given.JsonArgument = None,
    arg: given.PairOption = None,
    batch: given.BatchOption = None,
    saved: given.SavedOption = None,
    mode: given.ModeOption = None,
    cron: given.CronOption = None,
    every: given.EveryOption = None,
    time_zone: given.TimeZoneOption = None,
    jitter: given.JitterOption = None,
    start: given.FromOption = None,
    end: given.UntilOption = None,
    overlap: given.OverlapOption = None,
    catch_up: given.CatchUpOption = None,
    budget: given.BudgetOption = None,
    pause_on: given.PauseOnOption = None,
    max_usd: given.MaxUsdOption = None,
    max_items: given.MaxItemsOption = None,
    max_run_time: given.MaxRunTimeOption = None,
    deadline: given.DeadlineOption = None,
    note: given.NoteOption = None,
    paused: given.PausedOption = False,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Have a tool called, a batch or a saved call started, whenever it is due.

    Examples:
      outlast schedules create nightly outlast/sleeper -a seconds=5 --cron '17 2 * * *' --tz Europe/Prague
      outlast schedules create hourly --saved prices --every 1h --budget 20
    """
    target = Target(tool, arguments, tuple(arg or ()), batch, saved, mode, max_usd, max_items, max_run_time, deadline)
    times = Times(cron, every, time_zone, jitter, start, end, overlap, catch_up, budget, pause_on, note)
    _run(Options(url, token, data_dir, as_json), "create", schedule_id, target, times, paused=paused)


@app.command()
def update(
    schedule_id: given.ScheduleArgument,
    tool: given.ToolArgument = None,
    arguments: given.JsonArgument = None,
    arg: given.PairOption = None,
    batch: given.BatchOption = None,
    saved: given.SavedOption = None,
    mode: given.ModeOption = None,
    cron: given.CronOption = None,
    every: given.EveryOption = None,
    time_zone: given.TimeZoneOption = None,
    jitter: given.JitterOption = None,
    start: given.FromOption = None,
    end: given.UntilOption = None,
    overlap: given.OverlapOption = None,
    catch_up: given.CatchUpOption = None,
    budget: given.BudgetOption = None,
    pause_on: given.PauseOnOption = None,
    max_usd: given.MaxUsdOption = None,
    max_items: given.MaxItemsOption = None,
    max_run_time: given.MaxRunTimeOption = None,
    deadline: given.DeadlineOption = None,
    note: given.NoteOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Change what is named here; the rest stays."""
    target = Target(tool, arguments, tuple(arg or ()), batch, saved, mode, max_usd, max_items, max_run_time, deadline)
    times = Times(cron, every, time_zone, jitter, start, end, overlap, catch_up, budget, pause_on, note)
    _run(Options(url, token, data_dir, as_json), "update", schedule_id, target, times)


@app.command()
def ls(
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """List your schedules."""
    _run(Options(url, token, data_dir, as_json), "list_schedules")


@app.command()
def show(
    schedule_id: given.ScheduleArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Show a schedule: when it is due next, and what came of its latest firings."""
    _run(Options(url, token, data_dir, as_json), "show", schedule_id)


@app.command()
def rm(
    schedule_id: given.ScheduleArgument,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Delete a schedule. What it has started goes on."""
    _run(Options(url, token, data_dir), "remove", schedule_id)


@app.command()
def pause(
    schedule_id: given.ScheduleArgument,
    reason: given.ReasonOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Have nothing due until the schedule is resumed."""
    _run(Options(url, token, data_dir, as_json), "pause", schedule_id, reason)


@app.command()
def resume(
    schedule_id: given.ScheduleArgument,
    reason: given.ReasonOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Have a paused schedule go on."""
    _run(Options(url, token, data_dir, as_json), "resume", schedule_id, reason)


@app.command()
def trigger(
    schedule_id: given.ScheduleArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Have a schedule due now, also while it is paused."""
    _run(Options(url, token, data_dir, as_json), "trigger", schedule_id)


@app.command()
def backfill(
    schedule_id: given.ScheduleArgument,
    start: given.StartOption,
    end: given.EndOption,
    overlap: given.OverlapOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Do what the schedule would have done in a part of time, one after the other."""
    _run(Options(url, token, data_dir, as_json), "backfill", schedule_id, start, end, overlap)


@app.command()
def times(
    schedule_id: given.ScheduleArgument,
    start: Annotated[
        datetime | None,
        typer.Option("--from", parser=given.parse_moment, metavar="MOMENT", help="From then on (now)."),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option("--until", parser=given.parse_moment, metavar="MOMENT", help="Until then (a week later)."),
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Show when a schedule is due, or was."""
    _run(Options(url, token, data_dir, as_json), "times", schedule_id, start, end)
