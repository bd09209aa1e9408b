"""`outlast output`: print, describe, verify and delete stored outputs."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from outlast.cli.options import BadInput, CliError, ExitCode, Options, Span, names_in, parse_span
from outlast.cli.runner import Context, connected, local_command, server_command
from outlast.cli.show.output import Output, Rows, ahead, local_time, size
from outlast.client import AsyncStream, RowSelection, StoredOutput
from outlast.client.whole_files import whole_file

app = typer.Typer(
    name="output", no_args_is_help=True, help="Print stored outputs, whole or in part; verify and delete them."
)

LocatorArgument = Annotated[str, typer.Argument(metavar="LOCATOR", help="The locator, from an answer.")]


@server_command(app, as_json=False)
async def get(
    context: Context,
    locator: LocatorArgument,
    rows: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only these rows: 100:200, :50, 1000:")] = None,
    byte_range: Annotated[
        str | None, typer.Option("--bytes", metavar="FROM:TO", help="Only these bytes of the content: 0:1024.")
    ] = None,
    fields: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these fields of each row; dots separate fields of objects.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--filter", metavar="JMESPATH", help="Only rows for which this is true.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="JMESPATH", help="Apply this to each row, or to the JSON value.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")] = None,
) -> None:
    """Print a stored output or write it to a file: rows as JSON lines, other content unchanged.

    If the connection is lost, a whole output resumes where it stopped. The file appears when it is complete.
    """
    pieces = _pieces(context, locator, rows, byte_range, fields, where, query)
    if file is not None:
        await _write(context, pieces, file)
        return
    if sys.stdout.isatty() and (await context.client.outputs.info(locator)).kind == "binary":
        raise BadInput("This output is binary.", hint=f"Write it to a file: `outlast output get {locator} -o FILE`")
    async with pieces:
        await context.output.pieces(pieces)


@server_command(app)
async def info(context: Context, locator: LocatorArgument) -> None:
    """Show the type, the size and the expiry of a stored output."""
    context.output.item(await context.client.outputs.info(locator), _sheet)


@local_command(app, with_server=True)
async def verify(
    output: Output,
    options: Options,
    subject: Annotated[str, typer.Argument(metavar="LOCATOR|FILE", help="A locator, or a part file of the store.")],
) -> ExitCode:
    """Verify a stored output against its digests.

    For a locator, the server reads every byte; a part file (`parts/…/00000.zst`) is checked here against
    docs/output-format.md, without a server. The exit code is 1 if it is damaged.
    """
    file = Path(subject)
    if file.exists():  # noqa: ASYNC240 (a command waits for nothing else)
        return _verify_file(output, file)
    async with connected(output, options) as context:
        return await _verify_locator(context, subject)


@server_command(app, as_json=False)
async def rm(context: Context, locator: LocatorArgument) -> None:
    """Delete a stored output before it expires."""
    await context.client.outputs.delete(locator)
    context.output.note(f"{escape(locator)} is deleted.")


def _pieces(
    context: Context,
    locator: str,
    rows: str | None,
    byte_range: str | None,
    fields: str | None,
    where: str | None,
    query: str | None,
) -> AsyncStream[bytes]:
    """Return the selected rows or bytes, the whole output if nothing is selected. Raises `BadInput`."""
    selects_rows = bool(rows or fields or where or query)
    span = parse_span(rows, "--rows") if rows else Span()
    byte_span = parse_span(byte_range, "--bytes") if byte_range else Span()
    if selects_rows and byte_range:
        raise BadInput("--bytes cannot be combined with a selection of rows.", hint="Choose one of them.")
    if not selects_rows:
        return context.client.outputs.stream(locator, byte_span.start, byte_span.end)
    selection = RowSelection(span.start, span.limit, tuple(names_in(fields)), where, query)
    return context.client.outputs.lines(locator, selection)


async def _write(context: Context, pieces: AsyncStream[bytes], file: Path) -> None:
    if file.is_dir():  # noqa: ASYNC240 (a command waits for nothing else)
        raise BadInput(f"{file} is a folder.", hint="Name a file in it.")
    written = 0
    try:
        with whole_file(file) as target:
            async with pieces:
                async for piece in pieces:
                    written += target.write(piece)
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror}.", exit_code=ExitCode.FAILED) from error
    context.output.note(f"[green]✓[/] {size(written)} in {escape(str(file))}")


def _verify_file(output: Output, file: Path) -> ExitCode:
    from outlast.activities.outputs.reader import verify_part_file  # noqa: PLC0415 (zstandard)

    report = verify_part_file(file)
    if output.as_json:
        output.document({"file": str(file), "intact": not report.findings, "findings": list(report.findings)})
    elif report.findings:
        output.text("\n".join([f"✗ {file}:", *(f"  {finding}" for finding in report.findings)]))
    else:
        output.text(f"✓ {file}: {report.frames} frames, {report.rows} rows, {report.raw_bytes} bytes of content")
    return ExitCode.FAILED if report.findings else ExitCode.OK


async def _verify_locator(context: Context, locator: str) -> ExitCode:
    found = await context.client.outputs.info(locator)
    read = 0
    async with context.client.outputs.stream(locator) as pieces:
        async for piece in pieces:
            read += len(piece)
    intact = read == found.size_bytes
    if context.output.as_json:
        context.output.document({"locator": locator, "intact": intact, "bytes": read, "digest": found.digest})
    else:
        finding = "every byte is what was stored" if intact else f"only {read} of {found.size_bytes} bytes were read"
        context.output.text(f"{'✓' if intact else '✗'} {locator}: {finding} ({size(read)})")
    return ExitCode.OK if intact else ExitCode.FAILED


def _sheet(found: StoredOutput) -> Rows:
    count = f", {found.count:,} {'rows' if found.kind == 'rows' else 'elements'}" if found.count is not None else ""
    return [
        ("locator", f"[bold]{escape(found.locator)}[/]"),
        ("content", f"{escape(found.content_type)} ({found.kind}), {size(found.size_bytes)}{count}"),
        ("stored", f"{size(found.stored_bytes)}, {local_time(found.created_at)}"),
        ("kept until", f"{local_time(found.expires_at)} ({ahead(found.expires_at)})"),
        ("digest", escape(found.digest)),
        ("summary", escape(found.summary.rstrip())),
    ]
