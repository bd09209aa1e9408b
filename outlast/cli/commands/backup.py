"""`outlast backup` and `outlast restore`: the state of an embedded stack in one file, and back."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.commands.stack import stack_failure
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, JsonOption
from outlast.cli.runner import finish
from outlast.cli.show.output import Output
from outlast.cli.show.wording import counted, size
from outlast.cli.stack_options import StackDataDirOption

if TYPE_CHECKING:
    from outlast.deploy.local.backups import BackupManifest


def backup(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write, such as outlast.tar.zst; a new one.")
    ],
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    secrets: Annotated[
        bool, typer.Option("--secrets/--no-secrets", help="Whether keys and policy are in it, too.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Save the stack on the data directory in one file, while it runs.

    Workflows, stored outputs, sandbox platform, audit log, sealing keys and policy. Keep the file as safe as the keys
    in it: only its owner can read it.
    """
    output = Output(as_json=as_json)
    finish(output, lambda: _back_up(output, data_dir, file, secrets))


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `outlast backup` has written.", exists=True, dir_okay=False)
    ],
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Put a backup into a data directory that is empty or does not exist.

    Stop the stack that the backup was made of for good before you start the restored one: both would work on the same
    tasks.
    """
    output = Output(as_json=as_json)
    finish(output, lambda: _restore(output, file, data_dir))


async def _back_up(output: Output, data_dir: Path, file: Path, secrets: bool) -> ExitCode:
    from outlast.deploy.local.backups import back_up  # noqa: PLC0415 (zstandard, the Temporal SDK)

    manifest = _interruptible(lambda: back_up(data_dir, file, os.environ, with_secrets=secrets))
    if output.as_json:
        output.document({"file": str(file), **_document(manifest)})
        return ExitCode.OK
    output.show(f"[green]✓[/] {escape(str(file))}: {_contents(manifest)}, as of {manifest.backed_up_at:%F %T} UTC.")
    if manifest.store_url:
        output.show(f"  Stored outputs stay in {escape(manifest.store_url)}; docs/backup.md says how to keep them.")
    if not secrets:
        output.show("  Without keys and policy. Keep seal.keys elsewhere: nothing sealed can be read without it.")
    return ExitCode.OK


async def _restore(output: Output, file: Path, data_dir: Path) -> ExitCode:
    from outlast.deploy.local.backups import restore as restore_into  # noqa: PLC0415 (zstandard)

    manifest = _interruptible(lambda: restore_into(file, data_dir))
    todo = _left_to_do(manifest, data_dir)
    if output.as_json:
        output.document({"data_dir": str(data_dir), **_document(manifest), "left_to_do": todo})
        return ExitCode.OK
    output.show(f"[green]✓[/] {escape(str(data_dir))}: {_contents(manifest)}, as of {manifest.backed_up_at:%F %T} UTC.")
    for line in todo:
        output.show(f"  [cyan]→[/] {escape(line)}")
    return ExitCode.OK


def _left_to_do(manifest: "BackupManifest", data_dir: Path) -> list[str]:
    """The steps that a restore cannot make by itself."""
    todo = ["Make sure that the stack which was backed up does not run any more, then start this one: outlast up"]
    if not manifest.has_secrets:
        todo.insert(0, f"Put seal.keys back into {data_dir} first: the backup was made without secrets.")
    elif "policy.toml" in manifest.files:
        todo.append(f"Set OUTLAST_POLICY_FILE={data_dir / 'policy.toml'}")
    if manifest.store_url:
        todo.append(f"Set OUTLAST_STORE_URL={manifest.store_url}")
    elif os.environ.get("OUTLAST_STORE_URL"):
        todo.append(f"Unset OUTLAST_STORE_URL: the stored outputs are in {data_dir / 'outputs'}.")
    if manifest.temporal_namespace != "default":
        todo.append(f"Set TEMPORAL_NAMESPACE={manifest.temporal_namespace}")
    return todo


def _interruptible(work: "Callable[[], BackupManifest]") -> "BackupManifest":
    """Do work that waits for nothing but the disk; Ctrl-C ends it at once."""

    from outlast.deploy.local.errors import StackError  # noqa: PLC0415

    asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    try:
        return work()
    except (StackError, OSError) as error:
        raise stack_failure(error) from error
    except sqlite3.Error as error:
        raise CliError(f"The database cannot be read: {error}.", exit_code=ExitCode.FAILED) from error


def _document(manifest: "BackupManifest") -> dict[str, object]:
    return {
        "backed_up_at": manifest.backed_up_at.isoformat(),
        "files": len(manifest.files),
        "size_bytes": _size(manifest),
        "has_secrets": manifest.has_secrets,
        "store_url": manifest.store_url,
    }


def _contents(manifest: "BackupManifest") -> str:
    return f"{counted(len(manifest.files), 'file')}, {size(_size(manifest))}"


def _size(manifest: "BackupManifest") -> int:
    return sum(file.size_bytes for file in manifest.files.values())
