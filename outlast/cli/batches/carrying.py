"""Carries out the commands of `outlast batch`."""

import asyncio
import hashlib
import json
import secrets
import sys
from collections.abc import AsyncIterable
from pathlib import Path

from rich.markup import escape

from outlast.cli.ask.arguments import read_arguments
from outlast.cli.ask.ranges import Span, parse_span
from outlast.cli.batches.asked import Asked, Changes, SaveTo
from outlast.cli.batches.display import BATCH_COLUMNS, batch_row, batch_sheet, headline, progress_line, state_line
from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.cli.running import Context
from outlast.cli.show.progress import TaskProgress
from outlast.client import Batch
from outlast.client.requests import RowFilter

_LOOK_SECONDS = 1.0
_LINES_OF_PROGRESS = 20
"""Number of progress lines where there is no terminal."""
_STDIN = Path("-")


async def run_batch(context: Context, asked: Asked, *, again: bool, save: SaveTo | None, detach: bool) -> ExitCode:
    """Start a batch and, unless detached, watch it to its end."""
    asked.source.check()
    context.interrupted = CliError(
        "Interrupted while the batch was being sent; it may have been accepted.",
        exit_code=ExitCode.INTERRUPTED,
        hint=f"`{context.options.command('batch ls')}` shows it; the same command meets it again.",
    )
    batch = await _started(context, asked, again=again)
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


async def go_on(
    context: Context, batch_id: str, changes: Changes, categories: tuple[str, ...] | None, *, detach: bool
) -> ExitCode:
    """Resume a batch or, with `categories`, retry its failed items; unless detached, watch it to its end."""
    batches, changed = context.client.batches, changes.options()
    if categories is None:
        batch = await batches.resume(batch_id, **changed)
    else:
        batch = await batches.retry(batch_id, categories, **changed)
    context.output.note(headline(batch, context.client.connection.url))
    return await _watched(context, batch, detach=detach, save=None)


async def _started(context: Context, asked: Asked, *, again: bool) -> Batch:
    options, arguments = asked.options(), read_arguments(None, list(asked.pairs))
    batches, source = context.client.batches, asked.source
    file, rows = source.file, {"output": source.output, "dataset": source.dataset}
    content = json.dumps(rows).encode() if file is None else _content_of(file)
    settings = json.dumps([asked.tool, arguments, options], sort_keys=True).encode()
    # The same for the same batch, so that a command that is repeated meets it.
    key = f"cli-{hashlib.sha256(settings + bytes(1) + content).hexdigest()}"
    options["idempotency_key"] = secrets.token_hex(16) if again else key
    if file is None:
        return await batches.start_rows(asked.tool, arguments, **rows, **options)
    if file == _STDIN:
        return await batches.start_lines(asked.tool, content, arguments, **options)
    return await batches.start_file(asked.tool, file, arguments, **options)


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
