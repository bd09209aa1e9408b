"""`outlast audit`: verify the audit log."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.options import DEFAULT_DATA_DIR, CliError, DataDirOption, ExitCode
from outlast.cli.runner import local_command
from outlast.cli.show.output import Output

if TYPE_CHECKING:
    from outlast.activities.secrets import SecretSealer
    from outlast.api.audit.records import ChainReport

app = typer.Typer(name="audit", no_args_is_help=True, help="Verify the audit log.")


@app.callback()
def audit() -> None:
    """Verify the audit log."""


@local_command(app)
async def verify(
    output: Output,
    files: Annotated[list[Path], typer.Argument(help="All files of the log, in any order.", exists=True)],
    seal_keys: Annotated[
        Path | None, typer.Option(envvar="OUTLAST_SEAL_KEYS_FILE", help="The key ring of the API that wrote the log.")
    ] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Find lines that were changed, removed, moved or inserted. The exit code is 1 if there are any.

    Compare the last number and code with those that you noted before: a log cannot prove that its last records were
    not removed.
    """
    from outlast.api.audit.records import KEY_PURPOSE, verify  # noqa: PLC0415 (pydantic)

    reports = verify(files, _ring(seal_keys or data_dir / "seal.keys").derived_keys(KEY_PURPOSE))
    is_broken = any(report.problems for report in reports)
    if output.as_json:
        output.document({"ok": not is_broken, "chains": [_document(report) for report in reports]})
    else:
        for report in reports:
            _show(output, report)
    return ExitCode.FAILED if is_broken else ExitCode.OK


def _ring(path: Path) -> "SecretSealer":
    from outlast.activities.failures.exceptions import SealError  # noqa: PLC0415
    from outlast.activities.secrets import SecretSealer  # noqa: PLC0415

    try:
        given = os.environ.get("OUTLAST_SEAL_KEYS")
        return SecretSealer.from_text(given) if given else SecretSealer.from_file(path)
    except SealError as error:
        raise CliError(
            f"{error} The log can be verified only with the keys of its API.", exit_code=ExitCode.USAGE
        ) from error


def _document(report: "ChainReport") -> dict[str, object]:
    return {
        "chain": report.chain,
        "files": [str(path) for path in report.files],
        "records": report.records,
        "first": report.first,
        "last": report.last.seq,
        "last_mac": report.last.mac,
        "torn_bytes": report.torn_bytes,
        "problems": report.problems,
    }


def _show(output: Output, report: "ChainReport") -> None:
    for problem in report.problems:
        output.show(f"[bold red]✗[/] {escape(problem)}")
    mark = "[bold red]✗[/]" if report.problems else "[green]✓[/]"
    what = f"{report.records} records, numbers {report.first} to {report.last.seq}"
    output.show(f"{mark} chain {escape(report.chain)}: {what}, the last with code {report.last.mac}")
    if report.first > 1 and not report.problems:
        output.show(f"  Files with the records before {report.first} are missing.")
    if report.torn_bytes:
        output.show(
            f"  The last line is incomplete ({report.torn_bytes} bytes): after a crash, or it is being written."
        )
