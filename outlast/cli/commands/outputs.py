"""`outlast output`: get stored outputs back, whole or in part; look at, verify and remove them."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from outlast.cli.args import Span, parse_span
from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.cli.options import Options, server_options
from outlast.cli.runner import Context, finish, run_action, server_command
from outlast.cli.show.output import Output
from outlast.cli.show.wording import ahead, local_time, size
from outlast.client import AsyncStream, RowSelection, StoredOutput
from outlast.client.whole_files import whole_file


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of an output is wanted; the whole when nothing is set."""

    rows: Span | None = None
    byte_span: Span | None = None
    fields: str | None = None
    where: str | None = None
    query: str | None = None

    def pieces(self, context: Context, locator: str) -> "AsyncStream[bytes]":
        """The part, in pieces. Raises `BadInput`."""

        selects = bool(self.rows or self.fields or self.where or self.query)
        if selects and self.byte_span is not None:
            raise BadInput("--bytes cannot be combined with a selection of rows.", hint="Choose one of them.")
        outputs = context.client.outputs
        if not selects:
            span = self.byte_span or Span(0, None)
            return outputs.stream(locator, span.start, span.end)
        rows = self.rows or Span(0, None)
        limit = None if rows.end is None else rows.end - rows.start
        fields = tuple(name.strip() for name in (self.fields or "").split(",") if name.strip())
        return outputs.lines(locator, RowSelection(rows.start, limit, fields, self.where, self.query))


app = typer.Typer(no_args_is_help=True, help="Get stored outputs back, whole or in part; verify and remove them.")

LocatorArgument = Annotated[str, typer.Argument(metavar="LOCATOR", help="The locator, as an answer gave it.")]


@app.command()
@server_command(as_json=False)
async def get(
    context: Context,
    locator: LocatorArgument,
    rows: Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only these rows: 100:200, :50, 1000:")] = None,
    byte_range: Annotated[
        str | None, typer.Option("--bytes", metavar="FROM:TO", help="Only these bytes of the content: 0:1024.")
    ] = None,
    fields: Annotated[
        str | None, typer.Option(metavar="A,B", help="Of each row only these fields; dots lead into objects.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--filter", metavar="JMESPATH", help="Only rows for which this is true.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="JMESPATH", help="What this makes of each row, or of the JSON value.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")] = None,
) -> ExitCode:
    """Print a stored output, or write it to a file: rows as lines of JSON, anything else as it is.

    A whole output goes on where it stopped when the connection is lost. A file appears when it is complete.
    """
    part = Part(
        rows=parse_span(rows, "--rows") if rows else None,
        byte_span=parse_span(byte_range, "--bytes") if byte_range else None,
        fields=fields,
        where=where,
        query=query,
    )
    return await get_output(context, locator, part, file)


@app.command()
@server_command()
async def info(
    context: Context,
    locator: LocatorArgument,
) -> ExitCode:
    """Show what a stored output is, and until when it is kept."""
    return await show_output(context, locator)


@app.command()
@server_options()
def verify(
    options: Options,
    subject: Annotated[str, typer.Argument(metavar="LOCATOR|FILE", help="A locator, or a part file of the store.")],
) -> None:
    """Check a stored output against its digests.

    Of a locator every byte is read by the server; a part file (`parts/…/00000.zst`) is checked here against
    docs/output-format.md, without a server. Exit code 1 when something is wrong.
    """
    file = Path(subject)
    if file.exists():
        output = Output(as_json=options.as_json)

        async def check() -> ExitCode:
            return verify_file(output, file)

        finish(output, check)
    run_action(options, lambda context: verify_locator(context, subject))


@app.command()
@server_command(as_json=False)
async def rm(
    context: Context,
    locator: LocatorArgument,
) -> ExitCode:
    """Remove a stored output before its time."""
    await context.client.outputs.delete(locator)
    context.output.note(f"Removed {escape(locator)}.")
    return ExitCode.OK


async def get_output(context: Context, locator: str, part: Part, file: Path | None) -> ExitCode:
    """Bring an output, or a part of it, to standard output or into `file`."""
    if file is not None and file.is_dir():  # noqa: ASYNC240 (a command waits for nothing else)
        raise BadInput(f"{file} is a folder.", hint="Name a file in it.")
    if file is not None:
        return await _into_file(context, locator, part, file)
    if sys.stdout.isatty() and (await context.client.outputs.info(locator)).kind == "binary":
        raise BadInput("This output is binary.", hint=f"Write it to a file: `outlast output get {locator} -o FILE`")
    async with part.pieces(context, locator) as pieces:
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return ExitCode.OK


async def _into_file(context: Context, locator: str, part: Part, file: Path) -> ExitCode:

    written = 0
    try:
        with whole_file(file) as target:
            async with part.pieces(context, locator) as pieces:
                async for piece in pieces:
                    written += target.write(piece)
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror}.", exit_code=ExitCode.FAILED) from error
    context.output.note(f"[green]✓[/] {size(written)} in {escape(str(file))}")
    return ExitCode.OK


async def show_output(context: Context, locator: str) -> ExitCode:
    """Print what is known of an output."""
    found = await context.client.outputs.info(locator)
    if context.output.as_json:
        context.output.document(found.document())
    else:
        context.output.sheet(_sheet(found))
    return ExitCode.OK


def verify_file(output: "Output", file: Path) -> ExitCode:
    """Check a part file of the store, without a server."""
    from outlast.activities.outputs.verify import verify_part_file  # noqa: PLC0415 (zstandard)

    report = verify_part_file(file)
    if output.as_json:
        output.document({"file": str(file), "intact": not report.findings, "findings": list(report.findings)})
    elif report.findings:
        output.text("\n".join([f"✗ {file}:", *(f"  {finding}" for finding in report.findings)]))
    else:
        output.text(f"✓ {file}: {report.frames} frames, {report.rows} rows, {report.raw_bytes} bytes of content")
    return ExitCode.FAILED if report.findings else ExitCode.OK


async def verify_locator(context: Context, locator: str) -> ExitCode:
    """Have every byte of an output read and checked by the server."""

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


def _sheet(found: "StoredOutput") -> list[tuple[str, str]]:

    count = f", {found.count:,} {'rows' if found.kind == 'rows' else 'elements'}" if found.count is not None else ""
    return [
        ("locator", f"[bold]{escape(found.locator)}[/]"),
        ("content", f"{escape(found.content_type)} ({found.kind}), {size(found.size_bytes)}{count}"),
        ("stored", f"{size(found.stored_bytes)}, {local_time(found.created_at)}"),
        ("kept until", f"{local_time(found.expires_at)} ({ahead(found.expires_at)})"),
        ("digest", escape(found.digest)),
        *(("summary" if number == 0 else "", escape(line)) for number, line in enumerate(found.summary.splitlines())),
    ]
