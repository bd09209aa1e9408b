"""Carries out the commands of `outlast batch`."""

import asyncio
import hashlib
import json
import secrets
import sys
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.markup import escape

from outlast.cli.args import Span, parse_span
from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.cli.runner import Context
from outlast.cli.show.progress import TaskProgress
from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, counted, duration, local_time, one_line, styled_status
from outlast.client import Batch
from outlast.client.requests import RowFilter
from outlast.contracts.options import BatchOptions

BATCH_COLUMNS = (
    Column("BATCH"),
    Column("STATUS", rank=1),
    Column("TOOL", rank=3, least=12),
    Column("ITEMS", rank=2, justify="right"),
    Column("FAILED", rank=4, justify="right"),
    Column("COST", rank=5, justify="right"),
    Column("NAME", rank=7, least=8, most=30),
    Column("AGE", rank=6),
)


def batch_row(batch: Batch) -> Sequence[str]:
    """A batch as a row of a list."""
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


def batch_sheet(batch: Batch) -> list[tuple[str, str]]:
    """All that is known of a batch."""
    rows = [
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
    return [(name, value) for name, value in rows if value]


def headline(batch: Batch, url: str) -> str:
    """The line with which watching begins."""
    of = counted(batch.total, "item")
    return f"[bold]{escape(batch.tool)}[/]  {of}  [dim]batch[/] {escape(batch.id)}  [dim]on {escape(url)}[/]"


def progress_line(batch: Batch) -> str:
    """How far it is, in one line. It begins with what the bar shows."""
    parts = [f"{batch.ended:,} of {batch.total:,} items"]
    parts += [f"{batch.failed:,} failed"] if batch.failed else []
    parts += [f"{batch.under_way:,} under way"] if batch.under_way else []
    parts += [rate] if (rate := _rate(batch)) else []
    parts += [money] if (money := _money(batch)) else []
    parts += [one_line(batch.status_message)] if batch.status_message else []
    return ", ".join(parts)


def state_line(batch: Batch) -> str:
    """The outcome of a batch."""
    words = f"{styled_status(batch.status)}  {_counts(batch)}"
    money = f", {_money(batch)}" if batch.cost_usd else ""
    why = f"\n  {escape(one_line(batch.status_message))}" if batch.status_message else ""
    return f"{words}{money}{why}"


def _counts(batch: Batch) -> str:
    counts = {
        "completed": batch.completed,
        "failed": batch.failed,
        "cancelled": batch.cancelled,
        "under way": batch.under_way,
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


_TABS = frozenset({"tab", "\\t"})


class SaveTo(NamedTuple):
    """A file for results, and whether its CSV is for spreadsheets."""

    path: Path
    csv_safe: bool

    @classmethod
    def at(cls, path: Path | None, *, csv_safe: bool) -> "SaveTo | None":
        """The file at `path`; None without one."""
        return None if path is None else cls(path, csv_safe)


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of the items."""

    file: Path | None
    output: str | None
    dataset: str | None

    def check(self) -> None:
        """Raise `BadInput` unless there is one source of items."""
        if len([source for source in (self.file, self.output, self.dataset) if source is not None]) != 1:
            raise BadInput(
                "A batch needs items: a FILE, --output LOCATOR, or --dataset ID.",
                hint="An example: `outlast batch run outlast/sleeper items.jsonl`.",
            )


_LOOK_SECONDS = 1.0
_LINES_OF_PROGRESS = 20
"""Number of progress lines where there is no terminal."""
_STDIN = Path("-")


async def run_batch(
    context: Context,
    tool: str,
    source: Source,
    arguments: dict[str, Any],
    options: BatchOptions,
    *,
    again: bool,
    save: SaveTo | None,
    detach: bool,
) -> ExitCode:
    """Start a batch and, unless detached, watch it to its end."""
    source.check()
    context.interrupted = CliError(
        "Interrupted while the batch was being sent; it may have been accepted.",
        exit_code=ExitCode.INTERRUPTED,
        hint=f"`{context.options.command('batch ls')}` shows it; the same command meets it again.",
    )
    batch = await _started(context, tool, source, arguments, options, again=again)
    context.output.note(headline(batch, context.client.connection.url))
    if batch.ended and not again:
        context.output.note("[dim]This batch was started before; --again starts another one.[/]")
    return await _watched(context, batch, detach=detach, save=save)


async def list_batches(context: Context, *, only_open: bool, limit: int) -> ExitCode:
    """Print the latest batches."""
    async with context.client.batches.list(only_open=only_open, limit=limit) as found:
        batches = [batch async for batch in found]
    if context.output.as_json:
        context.output.document({"batches": [batch.document() for batch in batches]})
    elif not batches:
        context.output.note("No batches." if only_open else "No batches yet.")
    else:
        context.output.table(BATCH_COLUMNS, [batch_row(batch) for batch in batches])
    return ExitCode.OK


async def show_batch(context: Context, batch_id: str, *, watch: bool) -> ExitCode:
    """Print one batch; with `watch`, when it has ended."""
    batch = await context.client.batches.get(batch_id)
    if watch:
        return await _watched(context, batch, detach=False, save=None)
    if context.output.as_json:
        context.output.document(batch.document())
    else:
        context.output.sheet(batch_sheet(batch))
    return ExitCode.OK


async def print_results(
    context: Context,
    batch_id: str,
    status: str | None,
    rows: str | None,
    *,
    follow: bool,
    as_csv: bool,
    csv_safe: bool,
    save: SaveTo | None,
) -> ExitCode:
    """Print results, or write them to a file."""
    if sum((follow, rows is not None, save is not None)) > 1 or (as_csv and (follow or save is not None)):
        raise BadInput(
            "These do not go together.", hint="--follow, --save and --rows exclude each other; --csv prints."
        )
    batches = context.client.batches
    if save is not None:
        size = await batches.save(batch_id, save.path, status=status, csv_safe=save.csv_safe)
        context.output.note(f"{size:,} bytes in {escape(str(save.path))}")
        return ExitCode.OK
    if follow:
        context.interrupted = _going_on(context, batch_id)
        async with batches.follow(batch_id, status=status) as found:
            async for row in found:
                context.output.line(row.document())
        return ExitCode.OK
    span = parse_span(rows, "--rows") if rows else Span(0, None)
    limit = None if span.end is None else span.end - span.start
    wanted = RowFilter(status, span.start, limit)
    async with batches.lines(batch_id, wanted, "csv" if as_csv else "jsonl", csv_safe=csv_safe) as lines:
        await _written(lines)
    return ExitCode.OK


async def cancel_batch(context: Context, batch_id: str) -> ExitCode:
    """Have a batch cancelled."""
    batch = await context.client.batches.cancel(batch_id)
    if context.output.as_json:
        context.output.document(batch.document())
    else:
        context.output.note(f"Cancelling {escape(batch_id)}: it ends when what is under way has ended.")
        context.output.command(f"watch  {context.options.command(f'batch show {batch_id} --watch')}")
    return ExitCode.OK


async def follow_batch(context: Context, batch: Batch, *, detach: bool) -> ExitCode:
    """Watch a batch that was resumed or retried to its end, unless detached."""
    context.output.note(headline(batch, context.client.connection.url))
    return await _watched(context, batch, detach=detach, save=None)


async def _started(
    context: Context, tool: str, source: Source, arguments: dict[str, Any], options: BatchOptions, *, again: bool
) -> Batch:
    if options.get("delimiter") in _TABS:
        options["delimiter"] = "\t"
    batches, file = context.client.batches, source.file
    content = json.dumps([source.output, source.dataset]).encode() if file is None else _content_of(file)
    settings = json.dumps([tool, arguments, options], sort_keys=True).encode()
    # The same for the same batch, so that a repeated command finds it.
    key = f"cli-{hashlib.sha256(settings + bytes(1) + content).hexdigest()}"
    options["idempotency_key"] = options.get("idempotency_key") or (secrets.token_hex(16) if again else key)
    if file is None:
        return await batches.start_rows(tool, arguments, output=source.output, dataset=source.dataset, **options)
    if file == _STDIN:
        return await batches.start_lines(tool, content, arguments, **options)
    return await batches.start_file(tool, file, arguments, **options)


def _content_of(file: Path) -> bytes:
    if file == _STDIN:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"Cannot read {file}: {error.strerror}.") from error


async def _watched(context: Context, batch: Batch, *, detach: bool, save: SaveTo | None) -> ExitCode:
    """Watch a batch until it has ended, and show its outcome."""
    output, command = context.output, context.options.command
    if detach:
        if output.as_json:
            output.document(batch.document())
        else:
            output.text(batch.id)
            output.command(f"watch  {command(f'batch show {batch.id} --watch')}")
        return ExitCode.OK
    context.interrupted = _going_on(context, batch.id)
    batch = await _until_ended(context, batch)
    if save is not None:
        await context.client.batches.save(batch.id, save.path, csv_safe=save.csv_safe)
    if output.as_json:
        output.document(batch.document())
    else:
        output.note(state_line(batch))
        if save is not None:
            output.note(f"The results are in {escape(str(save.path))}")
        else:
            output.command(f"results  {command(f'batch results {batch.id}')}")
        _advise(context, batch)
    return ExitCode.OK if batch.status == "completed" and not batch.failed else ExitCode.FAILED


def _advise(context: Context, batch: Batch) -> None:
    if batch.failed:
        context.output.command(f"failed  {context.options.command(f'batch results {batch.id} --status failed')}")
        context.output.command(f"retry  {context.options.command(f'batch retry {batch.id}')}")
    if batch.waiting or batch.cancelled:
        context.output.command(f"resume  {context.options.command(f'batch resume {batch.id}')}")


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


def _going_on(context: Context, batch_id: str) -> CliError:
    """What to say when Ctrl-C stops the watching."""
    return CliError(
        "Stopped watching; the batch goes on.",
        exit_code=ExitCode.INTERRUPTED,
        lines=(
            f"watch   {context.options.command(f'batch show {batch_id} --watch')}",
            f"cancel  {context.options.command(f'batch cancel {batch_id}')}",
        ),
    )


async def _written(lines: AsyncIterable[bytes]) -> None:
    async for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
