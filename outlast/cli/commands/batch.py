"""`outlast batch`: start one tool for many inputs, look at it, get its results, stop it and go on."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from outlast.cli.args import UNTIL_HELP, parse_duration, parse_usd
from outlast.cli.commands import batch_actions
from outlast.cli.commands.batch_actions import Asked, Changes, ItemLimits, Reusing, SaveTo, Source
from outlast.cli.connection import complete_tool
from outlast.cli.errors import ExitCode
from outlast.cli.options import (
    CsvSafeOption,
)
from outlast.cli.runner import Context, server_command

_ITEMS = "Items"
_LIMITS = "Limits"

Status = Literal["completed", "failed", "cancelled"]
RowOrder = Literal["given", "any"]


def _of_items(help_text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_ITEMS, **options)


def _limit(help_text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_LIMITS, **options)


BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="Id of the batch.", show_default=False)]
ToolArgument = Annotated[
    str, typer.Argument(help="Name of the tool, or an Actor as user/name.", autocompletion=complete_tool)
]
FileArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Items: .jsonl or .csv, or - for lines of JSON.")
]
PairOption = Annotated[
    list[str] | None,
    _of_items("An argument of every item; dots reach into objects.", "--arg", "-a", metavar="NAME=VALUE"),
]
MapOption = Annotated[
    list[str] | None,
    _of_items("The argument that takes its value from a field of the row.", "--map", "-m", metavar="NAME=FIELD"),
]
KeyOption = Annotated[str | None, _of_items("The field of a row that is the item's key.", metavar="FIELD")]
DelimiterOption = Annotated[str | None, _of_items("What separates the values of CSV: , ; | or tab. It is detected.")]
OutputOption = Annotated[str | None, _of_items("Take the rows of a stored output.", metavar="LOCATOR")]
DatasetOption = Annotated[str | None, _of_items("Take the rows of a dataset.", metavar="ID")]
RowOrderOption = Annotated[RowOrder | None, typer.Option(help="Order of the rows: that of the items, or any.")]
RetryOption = Annotated[
    list[str] | None,
    typer.Option("--retry", metavar="CATEGORY=N", help="Try items again that fail so: rate_limit=3."),
]
ConcurrencyOption = Annotated[int | None, _limit("Items under way at a time (10).", "--concurrency", "-c", min=1)]
BudgetOption = Annotated[float | None, _limit("What all items may cost together.", metavar="USD", parser=parse_usd)]
MaxUsdOption = Annotated[float | None, _limit("What one item may cost.", metavar="USD", parser=parse_usd)]
MaxItemsOption = Annotated[int | None, _limit("Rows that one item's run may produce.", min=1)]
MaxRunTimeOption = Annotated[
    float | None, _limit("Time that one item's run may take.", parser=parse_duration, metavar="TIME")
]
UntilOption = Annotated[list[str] | None, _limit("Of one item's run. " + UNTIL_HELP, metavar="CONDITION")]
DeadlineOption = Annotated[
    float | None, _limit("An item fails after this: 90s, 10m, 2h.", parser=parse_duration, metavar="TIME")
]
ReuseOption = Annotated[
    str | None,
    typer.Option(metavar="AGE", help="Take answers of equal calls that run, or are not older than this: 90s, 6h, 7d."),
]
RefreshOption = Annotated[
    bool, typer.Option("--refresh", help="Start the items in any case; later calls with --reuse may take the answers.")
]
StopOption = Annotated[
    list[str] | None,
    _limit(
        "Stop early: failures=10, failure_share=0.2, seconds=600, completed=100, rows=500, categories=timeout,payment; "
        "under_way=cancel cancels the rest.",
        "--stop",
        metavar="RULE=VALUE",
    ),
]
ModeOption = Annotated[str | None, typer.Option(help="As for `outlast call`.")]
NameOption = Annotated[str | None, typer.Option(help="For people; any text.")]
AgainOption = Annotated[bool, typer.Option("--again", help="Start another batch, although an equal one exists.")]
SaveOption = Annotated[
    Path | None, typer.Option("--save", "-o", metavar="FILE", help="Write the results to this file, .jsonl or .csv.")
]
DetachOption = Annotated[bool, typer.Option("--detach", "-d", help="Print the batch's id and leave.")]
StatusOption = Annotated[Status | None, typer.Option(help="Only items of this status.")]
RowsOption = Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only these rows: 100:200, :50, 1000:")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the batch has ended.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
CategoryOption = Annotated[
    list[str] | None, typer.Option("--category", metavar="CATEGORY", help="Only items that failed so.")
]
OpenOption = Annotated[bool, typer.Option("--open", help="Only batches that have not ended.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="Batches to list at most.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Show how far it is until it has ended.")]


app = typer.Typer(no_args_is_help=True, help="Call one tool for many inputs; look at it, get its results, go on.")


@app.command()
@server_command()
async def run(
    context: Context,
    tool: ToolArgument,
    file: FileArgument = None,
    arg: PairOption = None,
    mapping: MapOption = None,
    key: KeyOption = None,
    delimiter: DelimiterOption = None,
    output: OutputOption = None,
    dataset: DatasetOption = None,
    concurrency: ConcurrencyOption = None,
    budget: BudgetOption = None,
    max_usd: MaxUsdOption = None,
    max_items: MaxItemsOption = None,
    max_run_time: MaxRunTimeOption = None,
    until: UntilOption = None,
    deadline: DeadlineOption = None,
    stop: StopOption = None,
    retry: RetryOption = None,
    reuse: ReuseOption = None,
    refresh: RefreshOption = False,
    order: RowOrderOption = None,
    mode: ModeOption = None,
    name: NameOption = None,
    again: AgainOption = False,
    save: SaveOption = None,
    csv_safe: CsvSafeOption = True,
    detach: DetachOption = False,
) -> ExitCode:
    """Call a tool for each item of a file, show the progress, then the outcome.

    The batch is durable: Ctrl-C stops the watching, not the batch, and the same command meets it again.

    Examples:
      outlast batch run outlast/sleeper items.jsonl --concurrency 25 --budget 20
      outlast batch run outlast/site-crawler pages.csv -m startUrls.0.url=page --key page -o results.csv
    """
    source = Source(file, output, dataset, tuple(mapping or ()), key, delimiter)
    limits = ItemLimits(max_usd, max_items, max_run_time, deadline, tuple(until or ()))
    changes = Changes(concurrency, budget, tuple(stop or ()))
    reusing = Reusing(reuse, refresh)
    asked = Asked(tool, source, tuple(arg or ()), limits, changes, tuple(retry or ()), order, mode, name, reusing)
    return await batch_actions.run_batch(
        context,
        asked,
        again=again,
        save=SaveTo.at(save, csv_safe=csv_safe),
        detach=detach,
    )


@app.command()
@server_command()
async def ls(
    context: Context,
    only_open: OpenOption = False,
    limit: LimitOption = 20,
) -> ExitCode:
    """List your batches: open ones first, then those that ended last."""
    return await batch_actions.list_batches(context, only_open=only_open, limit=limit)


@app.command()
@server_command()
async def show(
    context: Context,
    batch_id: BatchArgument,
    watch: WatchOption = False,
) -> ExitCode:
    """Show a batch: counts, rate, time left, money."""
    return await batch_actions.show_batch(context, batch_id, watch=watch)


@app.command()
@server_command(as_json=False)
async def results(
    context: Context,
    batch_id: BatchArgument,
    status: StatusOption = None,
    rows: RowsOption = None,
    follow: FollowOption = False,
    as_csv: CsvOption = False,
    save: SaveOption = None,
    csv_safe: CsvSafeOption = True,
) -> ExitCode:
    """Print the results so far: a line of JSON for each item that has ended."""
    saved = SaveTo.at(save, csv_safe=csv_safe)
    return await batch_actions.print_results(
        context, batch_id, status, rows, follow=follow, as_csv=as_csv, csv_safe=csv_safe, save=saved
    )


@app.command()
@server_command()
async def cancel(
    context: Context,
    batch_id: BatchArgument,
) -> ExitCode:
    """Start nothing more of a batch, and cancel what is under way."""
    return await batch_actions.cancel_batch(context, batch_id)


@app.command()
@server_command()
async def retry(
    context: Context,
    batch_id: BatchArgument,
    category: CategoryOption = None,
    concurrency: ConcurrencyOption = None,
    budget: BudgetOption = None,
    stop: StopOption = None,
    detach: DetachOption = False,
) -> ExitCode:
    """Run the failed items of a batch that has ended again."""
    changes, categories = Changes(concurrency, budget, tuple(stop or ())), tuple(category or ())
    return await batch_actions.go_on(context, batch_id, changes, categories, detach=detach)


@app.command()
@server_command()
async def resume(
    context: Context,
    batch_id: BatchArgument,
    concurrency: ConcurrencyOption = None,
    budget: BudgetOption = None,
    stop: StopOption = None,
    detach: DetachOption = False,
) -> ExitCode:
    """Go on with a batch that has stopped: with what was cancelled, and what was not started."""
    changes = Changes(concurrency, budget, tuple(stop or ()))
    return await batch_actions.go_on(context, batch_id, changes, None, detach=detach)
