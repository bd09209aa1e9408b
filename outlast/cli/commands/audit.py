"""`outlast audit`: check the audit log."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.errors import CliError, ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption
from outlast.cli.runner import finish
from outlast.cli.show.output import Output

if TYPE_CHECKING:
    from outlast.activities.secrets.encryption import SecretSealer
    from outlast.api.audit.chain import ChainReport

app = typer.Typer(no_args_is_help=True, help="Check the audit log: who did what.")


@app.callback()
def audit() -> None:
    """Commands of the audit log."""


@app.command()
def verify(
    files: Annotated[list[Path], typer.Argument(help="All files of the log, in any order.", exists=True)],
    seal_keys: Annotated[
        Path | None,
        typer.Option(envvar="OUTLAST_SEAL_KEYS_FILE", help="The ring of sealing keys that the API had."),
    ] = None,
    as_json: JsonOption = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Find lines that were changed, removed, moved or inserted. Exit code 1 when there are any.

    Compare the last number and code with those that you noted before: a log does not show that its last records were
    removed.
    """
    output = Output(as_json=as_json)
    finish(output, lambda: _verify(output, files, seal_keys or data_dir / "seal.keys"))


async def _verify(output: Output, files: list[Path], seal_keys: Path) -> ExitCode:
    from outlast.api.audit.chain import KEY_PURPOSE, verify  # noqa: PLC0415 (pydantic)

    reports = verify(files, _ring(seal_keys).derived_keys(KEY_PURPOSE))
    if output.as_json:
        output.document({"ok": not _is_broken(reports), "chains": [_document(report) for report in reports]})
    else:
        for report in reports:
            _show(output, report)
    return ExitCode.FAILED if _is_broken(reports) else ExitCode.OK


def _ring(path: Path) -> "SecretSealer":
    from outlast.activities.failures.exceptions import SealError  # noqa: PLC0415
    from outlast.activities.secrets.encryption import SecretSealer  # noqa: PLC0415

    try:
        given = os.environ.get("OUTLAST_SEAL_KEYS")
        return SecretSealer.from_text(given) if given else SecretSealer.from_file(path)
    except SealError as error:
        raise CliError(
            f"{error} The log can be checked only with the keys of its API.", exit_code=ExitCode.USAGE
        ) from error


def _is_broken(reports: "list[ChainReport]") -> bool:
    return any(report.problems for report in reports)


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
        output.show(f"  The files before record {report.first} were not given.")
    if report.torn_bytes:
        output.show(f"  The last line is unfinished ({report.torn_bytes} bytes): a crash, or it is being written.")
