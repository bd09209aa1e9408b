"""`outlast backup` and `outlast restore`: save the state of an embedded stack to a file, and restore it."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.commands.stack import stack_errors
from outlast.cli.options import DEFAULT_DATA_DIR, CliError, ExitCode
from outlast.cli.runner import local_command
from outlast.cli.show.output import Output, size
from outlast.cli.stack_options import StackDataDirOption
from outlast.wording import counted

if TYPE_CHECKING:
    from outlast.deploy.local.backups import BackupManifest


@local_command()
async def backup(
    output: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to create, such as outlast.tar.zst.")],
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    secrets: Annotated[bool, typer.Option("--secrets/--no-secrets", help="Include keys and policy.")] = True,
) -> None:
    """Save the running stack on the data directory to one file.

    The file contains workflows, stored outputs, the sandbox platform, the audit log, encryption keys and the policy.
    Keep it as safe as these keys: only its owner can read it.
    """
    from outlast.deploy.local.backups import back_up  # noqa: PLC0415 (zstandard, the Temporal SDK)

    with _interruptible():
        manifest = back_up(data_dir, file, os.environ, with_secrets=secrets)
    if output.as_json:
        output.document({"file": str(file), **_document(manifest)})
        return
    _show(output, file, manifest)
    if manifest.store_url:
        output.show(f"  Stored outputs stay in {escape(manifest.store_url)}; docs/backup.md explains how to keep them.")
    if not secrets:
        output.show("  Without keys and policy. Keep seal.keys elsewhere: encrypted data is lost without it.")


@local_command()
async def restore(
    output: Output,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of `outlast backup`.", exists=True, dir_okay=False)
    ],
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Restore a backup into a data directory that is empty or does not exist.

    Before you start the restored stack, stop the original stack permanently: both would work on the same tasks.
    """
    from outlast.deploy.local.backups import restore as restore_into  # noqa: PLC0415 (zstandard)

    with _interruptible():
        manifest = restore_into(file, data_dir)
    steps = _next_steps(manifest, data_dir)
    if output.as_json:
        output.document({"data_dir": str(data_dir), **_document(manifest), "left_to_do": steps})
        return
    _show(output, data_dir, manifest)
    for step in steps:
        output.show(f"  [cyan]→[/] {escape(step)}")


def _next_steps(manifest: "BackupManifest", data_dir: Path) -> list[str]:
    steps = ["Make sure that the stack that was backed up no longer runs, then start this one: outlast up"]
    if not manifest.has_secrets:
        steps.insert(0, f"First copy seal.keys into {data_dir}: the backup has no secrets.")
    elif "policy.toml" in manifest.files:
        steps.append(f"Set OUTLAST_POLICY_FILE={data_dir / 'policy.toml'}")
    if manifest.store_url:
        steps.append(f"Set OUTLAST_STORE_URL={manifest.store_url}")
    elif os.environ.get("OUTLAST_STORE_URL"):
        steps.append(f"Unset OUTLAST_STORE_URL: the stored outputs are in {data_dir / 'outputs'}.")
    if manifest.temporal_namespace != "default":
        steps.append(f"Set TEMPORAL_NAMESPACE={manifest.temporal_namespace}")
    return steps


@contextmanager
def _interruptible() -> Generator[None]:
    """Let Ctrl-C end the block at once: it waits only for the disk. Raises `CliError`."""
    asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    try:
        with stack_errors():
            yield
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


def _show(output: Output, place: Path, manifest: "BackupManifest") -> None:
    contents = f"{counted(len(manifest.files), 'file')}, {size(_size(manifest))}"
    output.show(f"[green]✓[/] {escape(str(place))}: {contents}, as of {manifest.backed_up_at:%F %T} UTC.")


def _size(manifest: "BackupManifest") -> int:
    return sum(file.size_bytes for file in manifest.files.values())
