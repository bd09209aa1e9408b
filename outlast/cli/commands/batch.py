"""`outlast batch`: start one tool for many inputs, look at it, get its results, stop it and go on."""

from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

import typer

from outlast.cli.args import read_arguments
from outlast.cli.commands import batch_actions
from outlast.cli.commands.batch_actions import SaveTo, Source
from outlast.cli.connection import complete_tool
from outlast.cli.errors import ExitCode
from outlast.cli.options import (
    CsvSafeOption,
)
from outlast.cli.runner import Context, server_command
from outlast.contracts.options import BatchChanges, BatchOptions

_ITEMS = "Items"

Status = Literal["completed", "failed", "cancelled"]


def _of_items(help_text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_ITEMS, **options)


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
OutputOption = Annotated[str | None, _of_items("Take the rows of a stored output.", metavar="LOCATOR")]
DatasetOption = Annotated[str | None, _of_items("Take the rows of a dataset.", metavar="ID")]
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
    output: OutputOption = None,
    dataset: DatasetOption = None,
    again: AgainOption = False,
    save: SaveOption = None,
    csv_safe: CsvSafeOption = True,
    detach: DetachOption = False,
    **options: Unpack[BatchOptions],
) -> ExitCode:
    """Call a tool for each item of a file, show the progress, then the outcome.

    The batch is durable: Ctrl-C stops the watching, not the batch, and the same command meets it again.

    Examples:
      outlast batch run outlast/sleeper items.jsonl --concurrency 25 --budget 20
      outlast batch run outlast/site-crawler pages.csv -m startUrls.0.url=page --key page -o results.csv
    """
    return await batch_actions.run_batch(
        context,
        tool,
        Source(file, output, dataset),
        read_arguments(None, arg or []),
        options,
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
    detach: DetachOption = False,
    **changes: Unpack[BatchChanges],
) -> ExitCode:
    """Run the failed items of a batch that has ended again."""
    batch = await context.client.batches.retry(
        batch_id,
        tuple(category or ()),
        concurrency=changes.get("concurrency"),
        budget_usd=changes.get("budget_usd"),
        stop=changes.get("stop"),
    )
    return await batch_actions.follow_batch(context, batch, detach=detach)


@app.command()
@server_command()
async def resume(
    context: Context,
    batch_id: BatchArgument,
    detach: DetachOption = False,
    **changes: Unpack[BatchChanges],
) -> ExitCode:
    """Go on with a batch that has stopped: with what was cancelled, and what was not started."""
    batch = await context.client.batches.resume(
        batch_id, concurrency=changes.get("concurrency"), budget_usd=changes.get("budget_usd"), stop=changes.get("stop")
    )
    return await batch_actions.follow_batch(context, batch, detach=detach)
