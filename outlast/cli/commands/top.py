"""`outlast top`: a live view of tasks, queues, workers and money."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli.errors import ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption, Options, TokenOption, UrlOption
from outlast.cli.running import Context, run_action
from outlast.cli.show.parse_durations import parse_duration

if TYPE_CHECKING:
    from outlast.cli.show.top_view import TopView

_EVERY_SECONDS = 2
_MONEY_EVERY_SECONDS = 15
_MONEY_PATIENCE_SECONDS = 5


def top(
    once: Annotated[bool, typer.Option("--once", help="Show it once and leave.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration, metavar="TIME", show_default="2s", help="Time between two looks, 1s at least."
        ),
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Watch tasks, queues, workers and what is spent, until Ctrl-C.

    You see your own tasks; with the scope `admin` those of all callers, and queues and workers too. Where there is no
    terminal it is shown once; with --json, as one line for each look.
    """
    seconds = max(interval or _EVERY_SECONDS, 1.0)
    run_action(Options(url, token, data_dir, as_json), lambda context: _top(context, once=once, seconds=seconds))


async def _top(context: Context, *, once: bool, seconds: float) -> ExitCode:
    output = context.output
    if not once and (output.as_json or output.out.is_terminal):
        # Ctrl-C is the way to leave it.
        with suppress(asyncio.CancelledError):
            await (_lines(context, seconds) if output.as_json else _live(context, seconds))
        return ExitCode.OK
    view = _view(context)
    view.operations = await context.client.operations()
    await _look_at_money(context, view)
    if output.as_json:
        output.document(_document(view))
    else:
        output.show(view)
    return ExitCode.OK


async def _lines(context: Context, seconds: float) -> None:
    view = _view(context)
    async with _money_followed(context, view):
        while True:
            view.operations = await context.client.operations()
            context.output.line(_document(view))
            await asyncio.sleep(seconds)


async def _live(context: Context, seconds: float) -> None:
    from rich.live import Live  # noqa: PLC0415

    from outlast.cli.connecting import waiting_text  # noqa: PLC0415 (httpx)
    from outlast.client import Waiting  # noqa: PLC0415

    view = _view(context)

    def show_trouble(waiting: Waiting | None) -> None:
        view.trouble = None if waiting is None else waiting_text(waiting)

    view.operations = await context.client.operations()
    context.client.on_waiting = show_trouble
    with Live(view, console=context.output.out, screen=True, refresh_per_second=4):
        async with _money_followed(context, view):
            while True:
                await asyncio.sleep(seconds)
                view.operations = await context.client.operations()


def _view(context: Context) -> "TopView":
    from outlast.cli.show.top_view import TopView  # noqa: PLC0415 (httpx)

    return TopView(context.client.connection.url)


@asynccontextmanager
async def _money_followed(context: Context, view: "TopView") -> AsyncGenerator[None]:
    """Look at it now and then, beside what the block does."""
    following = asyncio.create_task(_follow_money(context, view))
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _follow_money(context: Context, view: "TopView") -> None:
    while True:
        if view.operations is not None:
            await _look_at_money(context, view)
        await asyncio.sleep(_MONEY_EVERY_SECONDS if view.operations else 0.1)


async def _look_at_money(context: Context, view: "TopView") -> None:
    """The spending of today (UTC). Workers answer it, so the wait for it is short."""
    from outlast.client import OutlastError, UsageOptions  # noqa: PLC0415 (httpx)

    today = datetime.now(UTC).date()
    sees_all = view.operations is not None and view.operations.scope == "all"
    wanted: UsageOptions = {
        "first_day": today,
        "last_day": today,
        "by": ["caller"],
        "caller": "*" if sees_all else None,
    }
    try:
        async with asyncio.timeout(_MONEY_PATIENCE_SECONDS):
            view.usage, view.usage_problem = await context.client.usage(**wanted), None
    except TimeoutError:
        view.usage, view.usage_problem = None, "is unknown: no worker answers"
    except OutlastError as error:
        view.usage, view.usage_problem = None, f"is unknown: {error.message}"


def _document(view: "TopView") -> dict[str, object]:
    operations = view.operations.document() if view.operations else {}
    return {**operations, "usage": view.usage.document() if view.usage else None}
