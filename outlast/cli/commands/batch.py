"""`outlast batch`: call a tool for many inputs, and watch, read, cancel, retry and resume batches."""

import asyncio
import hashlib
import json
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Unpack

import typer
from rich.markup import escape

from outlast.cli.options import (
    BadInput,
    CliError,
    CsvOption,
    CsvSafeOption,
    DetachOption,
    ExitCode,
    Span,
    names_in,
    parse_span,
    read_arguments,
)
from outlast.cli.runner import Context, complete_tool, server_command
from outlast.cli.show.output import Column, Rows, ago, local_time, one_line, styled_status
from outlast.cli.show.progress import TaskProgress
from outlast.client import Batch
from outlast.client.requests import RowFilter
from outlast.contracts.options import BatchChanges, BatchOptions
from outlast.wording import counted, duration

_TABS = frozenset({"tab", "\\t"})
_STDIN = Path("-")
_LOOK_SECONDS = 1.0
_LINES_OF_PROGRESS = 20
"""Number of progress lines without a terminal."""
_COLUMNS = (
    Column("BATCH"),
    Column("STATUS", rank=1),
    Column("TOOL", rank=3, least=12),
    Column("ITEMS", rank=2, justify="right"),
    Column("FAILED", rank=4, justify="right"),
    Column("COST", rank=5, justify="right"),
    Column("NAME", rank=7, least=8, most=30),
    Column("AGE", rank=6),
)

Status = Literal["completed", "failed", "cancelled"]
_of_items = partial(typer.Option, rich_help_panel="Items")
BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="Id of the batch.", show_default=False)]
ToolArgument = Annotated[
    str, typer.Argument(help="Name of the tool, or an Actor as user/name.", autocompletion=complete_tool)
]
FileArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Items: .jsonl or .csv, or - for JSON lines on standard input.")
]
PairOption = Annotated[
    list[str] | None,
    _of_items("--arg", "-a", metavar="NAME=VALUE", help="An argument of every item; dots separate fields of objects."),
]
SaveOption = Annotated[
    Path | None, typer.Option("--save", "-o", metavar="FILE", help="Write the results to this file, .jsonl or .csv.")
]

app = typer.Typer(name="batch", no_args_is_help=True, help="Call one tool for many inputs, and manage batches.")


@server_command(app)
async def run(
    context: Context,
    tool: ToolArgument,
    file: FileArgument = None,
    arg: PairOption = None,
    output: Annotated[str | None, _of_items(help="Use the rows of a stored output.", metavar="LOCATOR")] = None,
    dataset: Annotated[str | None, _of_items(help="Use the rows of a dataset.", metavar="ID")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Start another batch, even if an identical one exists.")
    ] = False,
    save: SaveOption = None,
    csv_safe: CsvSafeOption = True,
    detach: DetachOption = False,
    **options: Unpack[BatchOptions],
) -> ExitCode:
    """Call a tool for each item of a file, show the progress, then the result.

    The batch is durable: Ctrl-C stops this command, not the batch, and the same command returns to it.

    Examples:
      outlast batch run outlast/sleeper items.jsonl --concurrency 25 --budget 20
      outlast batch run outlast/site-crawler pages.csv -m startUrls.0.url=page
    """
    check_source(file, output, dataset)
    context.output.interrupted = CliError(
        "Interrupted while the batch was being sent; the server may have accepted it.",
        exit_code=ExitCode.INTERRUPTED,
        hint=f"`{context.options.command('batch ls')}` shows it; the same command returns to it.",
    )
    arguments = read_arguments(None, arg or [])
    if options.get("delimiter") in _TABS:
        options["delimiter"] = "\t"
    content = json.dumps([output, dataset]).encode() if file is None else _content_of(file)
    settings = json.dumps([tool, arguments, options], sort_keys=True).encode()
    # The same for the same batch, so that a repeated command finds it.
    key = f"cli-{hashlib.sha256(settings + bytes(1) + content).hexdigest()}"
    options["idempotency_key"] = options.get("idempotency_key") or (secrets.token_hex(16) if again else key)
    batches = context.client.batches
    if file is None:
        batch = await batches.start_rows(tool, arguments, output=output, dataset=dataset, **options)
    elif file == _STDIN:
        batch = await batches.start_lines(tool, content, arguments, **options)
    else:
        batch = await batches.start_file(tool, file, arguments, **options)
    _show_headline(context, batch)
    if batch.ended and not again:
        context.output.note("[dim]This batch was started before; --again starts another one.[/]")
    return await _follow(context, batch, detach=detach, save=save, csv_safe=csv_safe)


@server_command(app)
async def ls(
    context: Context,
    only_open: Annotated[bool, typer.Option("--open", help="Only batches that have not ended.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of batches.")] = 20,
) -> None:
    """List your batches: open ones first, then the most recently ended."""
    async with context.client.batches.list(only_open=only_open, limit=limit) as listed:
        found = [batch async for batch in listed]
    context.output.listing("batches", found, _COLUMNS, _row, "No batches." if only_open else "No batches yet.")


@server_command(app)
async def show(
    context: Context,
    batch_id: BatchArgument,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show the progress until it has ended.")] = False,
) -> ExitCode:
    """Show a batch: counts, rate, time left, cost."""
    batch = await context.client.batches.get(batch_id)
    if watch:
        return await _follow(context, batch, detach=False)
    context.output.item(batch, _sheet)
    return ExitCode.OK


@server_command(app, as_json=False)
async def results(
    context: Context,
    batch_id: BatchArgument,
    status: Annotated[Status | None, typer.Option(help="Only items with this status.")] = None,
    rows: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only these rows: 100:200, :50, 1000:")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the batch has ended.")] = False,
    as_csv: CsvOption = False,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Only these columns, such as key,status,result.title,input.url."),
    ] = None,
    with_input: Annotated[
        bool, typer.Option("--input", help="Add the columns of the row that each item was made from.")
    ] = False,
    save: SaveOption = None,
    csv_safe: CsvSafeOption = True,
) -> None:
    """Print the results so far: a JSON line for each item that has ended."""
    chosen = names_in(columns)
    if follow and (chosen or with_input):
        raise BadInput("--follow prints whole rows.", hint="Leave out --columns and --input.")
    if sum((follow, rows is not None, save is not None)) > 1 or (as_csv and (follow or save is not None)):
        raise BadInput(
            "These options cannot be combined.",
            hint="--follow, --save and --rows exclude each other; --csv excludes --follow and --save.",
        )
    batches = context.client.batches
    if save is not None:
        size = await batches.save(
            batch_id, save, status=status, csv_safe=csv_safe, columns=chosen, with_input=with_input
        )
        context.output.note(f"{size:,} bytes in {escape(str(save))}")
    elif follow:
        context.output.interrupted = _after_ctrl_c(context, batch_id)
        async with batches.follow(batch_id, status=status) as found:
            async for row in found:
                context.output.line(row.document())
    else:
        span = parse_span(rows, "--rows") if rows else Span()
        wanted = RowFilter(status, span.start, span.limit, chosen, with_input)
        async with batches.lines(batch_id, wanted, "csv" if as_csv else "jsonl", csv_safe=csv_safe) as lines:
            await context.output.pieces(lines)


@server_command(app)
async def cancel(context: Context, batch_id: BatchArgument) -> None:
    """Cancel the running items of a batch, and start no others."""
    batch = await context.client.batches.cancel(batch_id)
    note = f"Cancelling {escape(batch_id)}: it ends when its running items have ended."
    context.output.done(batch.document(), note)
    context.suggest(watch=f"batch show {batch_id} --watch")


@server_command(app)
async def retry(
    context: Context,
    batch_id: BatchArgument,
    category: Annotated[
        list[str] | None, typer.Option("--category", metavar="CATEGORY", help="Only items that failed with this error.")
    ] = None,
    detach: DetachOption = False,
    **changes: Unpack[BatchChanges],
) -> ExitCode:
    """Run failed items of an ended batch again. Those with `outcome_unknown` need `--category outcome_unknown`."""
    concurrency, budget_usd, stop = changes.get("concurrency"), changes.get("budget_usd"), changes.get("stop")
    batch = await context.client.batches.retry(
        batch_id, tuple(category or ()), concurrency=concurrency, budget_usd=budget_usd, stop=stop
    )
    _show_headline(context, batch)
    return await _follow(context, batch, detach=detach)


@server_command(app)
async def resume(
    context: Context, batch_id: BatchArgument, detach: DetachOption = False, **changes: Unpack[BatchChanges]
) -> ExitCode:
    """Resume a stopped batch: run the items that were cancelled or not started."""
    concurrency, budget_usd, stop = changes.get("concurrency"), changes.get("budget_usd"), changes.get("stop")
    batch = await context.client.batches.resume(batch_id, concurrency=concurrency, budget_usd=budget_usd, stop=stop)
    _show_headline(context, batch)
    return await _follow(context, batch, detach=detach)


def check_source(file: Path | None, output: str | None, dataset: str | None) -> None:
    """Raise `BadInput` unless there is exactly one source of items."""
    if len([source for source in (file, output, dataset) if source is not None]) != 1:
        raise BadInput(
            "A batch needs items: a FILE, --output LOCATOR, or --dataset ID.",
            hint="An example: `outlast batch run outlast/sleeper items.jsonl`.",
        )


def _content_of(file: Path) -> bytes:
    if file == _STDIN:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"Cannot read {file}: {error.strerror}.") from error


async def _follow(
    context: Context, batch: Batch, *, detach: bool, save: Path | None = None, csv_safe: bool = True
) -> ExitCode:
    """Watch a batch until it has ended, and show its result; if detached, print its id."""
    output = context.output
    if detach:
        if output.as_json:
            output.document(batch.document())
        else:
            output.text(batch.id)
            context.suggest(watch=f"batch show {batch.id} --watch")
        return ExitCode.OK
    output.interrupted = _after_ctrl_c(context, batch.id)
    batch = await _until_ended(context, batch)
    if save is not None:
        await context.client.batches.save(batch.id, save, csv_safe=csv_safe)
    output.done(batch.document(), state_line(batch))
    if save is not None:
        output.note(f"The results are in {escape(str(save))}")
    next_commands = {"results": f"batch results {batch.id}"} if save is None else {}
    if batch.failed:
        next_commands |= {"failed": f"batch results {batch.id} --status failed", "retry": f"batch retry {batch.id}"}
    if batch.waiting or batch.cancelled:
        next_commands |= {"resume": f"batch resume {batch.id}"}
    context.suggest(**next_commands)
    return ExitCode.OK if batch.status == "completed" and not batch.failed else ExitCode.FAILED


async def _until_ended(context: Context, batch: Batch) -> Batch:
    step = max(1, batch.total // _LINES_OF_PROGRESS)
    shown = -1
    with TaskProgress(context.output) as progress:
        while not batch.has_ended:
            if context.output.is_live or batch.ended // step != shown:
                shown = batch.ended // step
                progress.show(batch.status, progress_line(batch))
            await asyncio.sleep(_LOOK_SECONDS)
            batch = await context.client.batches.get(batch.id)
    return batch


def _after_ctrl_c(context: Context, batch_id: str) -> CliError:
    commands = context.options.commands(watch=f"batch show {batch_id} --watch", cancel=f"batch cancel {batch_id}")
    return CliError("Stopped watching; the batch continues.", exit_code=ExitCode.INTERRUPTED, lines=commands)


def _show_headline(context: Context, batch: Batch) -> None:
    url = escape(context.client.connection.url)
    items = counted(batch.total, "item")
    context.output.note(f"[bold]{escape(batch.tool)}[/]  {items}  [dim]batch[/] {escape(batch.id)}  [dim]on {url}[/]")


def _row(batch: Batch) -> Sequence[str]:
    return (
        escape(batch.id),
        styled_status(batch.status),
        escape(batch.tool),
        f"{batch.ended:,}/{batch.total:,}",
        f"{batch.failed:,}" if batch.failed else "",
        _usd(batch.cost_usd) if batch.cost_usd else "",
        escape(one_line(batch.name)),
        ago(batch.created_at),
    )


def _sheet(batch: Batch) -> Rows:
    return [
        ("batch", escape(batch.id)),
        ("name", escape(one_line(batch.name))),
        ("tool", escape(batch.tool)),
        ("Actor", escape(batch.actor or "")),
        ("status", styled_status(batch.status)),
        ("", escape(one_line(batch.status_message))),
        ("items", f"{batch.total:,}: {_counts(batch)}"),
        ("rows", f"{batch.rows:,}" if batch.rows else ""),
        ("rate", _rate(batch)),
        ("cost", _money(batch)),
        ("started", local_time(batch.created_at)),
        ("ended", local_time(batch.finished_at) if batch.finished_at else ""),
        ("results", escape(batch.results)),
        ("workflow", escape(batch.workflow_url or "")),
    ]


def progress_line(batch: Batch) -> str:
    """Return the progress in one line. It begins with what the bar shows."""
    parts = (
        f"{batch.ended:,} of {batch.total:,} items",
        f"{batch.failed:,} failed" if batch.failed else "",
        f"{batch.under_way:,} running" if batch.under_way else "",
        _rate(batch),
        _money(batch),
        one_line(batch.status_message),
    )
    return ", ".join(part for part in parts if part)


def state_line(batch: Batch) -> str:
    """Return the result of a batch."""
    money = f", {_money(batch)}" if batch.cost_usd else ""
    why = f"\n  {escape(one_line(batch.status_message))}" if batch.status_message else ""
    return f"{styled_status(batch.status)}  {_counts(batch)}{money}{why}"


def _counts(batch: Batch) -> str:
    counts = {
        "completed": batch.completed,
        "failed": batch.failed,
        "cancelled": batch.cancelled,
        "running": batch.under_way,
        "not started": batch.waiting,
    }
    return ", ".join(f"{number:,} {name}" for name, number in counts.items() if number) or "none yet"


def _rate(batch: Batch) -> str:
    if batch.has_ended or not batch.per_minute:
        return ""
    left = f", {duration(batch.seconds_left)} left" if batch.seconds_left else ""
    return f"{batch.per_minute:,.0f} a minute{left}"


def _money(batch: Batch) -> str:
    if not batch.cost_usd and batch.budget_usd is None:
        return ""
    return _usd(batch.cost_usd) + (f" of {_usd(batch.budget_usd)}" if batch.budget_usd is not None else "")


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.01 or not amount else f"${amount:.6f}".rstrip("0")
