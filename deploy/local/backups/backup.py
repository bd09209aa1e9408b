"""Makes the backup of a stack that may be running.

Nothing is stopped or locked. What keeps the parts consistent with each other is their order:

1. The files of the store are copied.
2. The databases are read, each in one transaction (SQLite's online backup): this is the moment of the backup.
3. The files that are new or different since step 1 are copied.

So every object that a workflow of the snapshot names is in the copy: it was there at step 1, or it is at step 3, even
when the sweep removes it in between. Objects that were written after the snapshot are too many, which harms nobody: the
sweep of the restored stack removes them.
"""

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from outlast.deploy.local.backups.archive import ArchiveWriter, BackupManifest
from outlast.deploy.local.backups.errors import BackupError
from outlast.deploy.local.belongings import (
    POLICY_VARIABLE,
    SANDBOX_DATABASE,
    TEMPORAL_DATABASE,
    DataDirectory,
    broken_parts,
    data_directory,
)
from outlast.deploy.local.outside import look_outside
from outlast.deploy.local.private_files import private_file
from outlast.deploy.local.stack_secrets import SANDBOX_TOKEN_FILE, SEAL_KEYS_FILE
from outlast.paths import store_folder

POLICY_FILE = "policy.toml"
_BUSY_SECONDS = 30
_NEVER_COPIED = re.compile(r".+#\d+|.+\.sqlite(-wal|-shm)?|.+\.tmp")
"""Files that the store or the sandbox is still writing, and databases, which are read in another way."""


def back_up(
    data_dir: Path, target: Path, environment: Mapping[str, str], *, with_secrets: bool = True
) -> BackupManifest:
    """Write the backup of the stack on `data_dir`, running or not, to the new file `target` (mode 0600).

    Raises `BackupError` when there is nothing to back up or `target` exists; `OSError` and `sqlite3.Error` when
    something cannot be read or written. No part of a file is left behind then.
    """
    namespace = _require_embedded_state(data_dir, environment)
    directory = _require_whole(data_dir, environment, with_secrets=with_secrets)
    if target.exists():
        raise BackupError(f"{target} exists already. Give the backup another name.")
    draft = target.with_name(f"{target.name}.part")
    try:
        with (
            tempfile.TemporaryDirectory(dir=target.parent, prefix=".outlast-backup-") as scratch,
            private_file(draft, "wb") as file,
        ):
            parts = _Parts(data_dir, environment)
            empty = BackupManifest(
                outlast_version=version("outlast"),
                backed_up_at=datetime.now(UTC),
                temporal_namespace=namespace,
                store_url=parts.store_url,
                has_secrets=with_secrets,
                belongings=directory.recorded or directory.current(),
            )
            manifest = _write(ArchiveWriter(file), parts, Path(scratch), empty)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)
    return manifest


def _require_embedded_state(data_dir: Path, environment: Mapping[str, str]) -> str:
    outside = look_outside(environment)
    if outside.temporal_address:
        raise BackupError(
            f"The tasks are on the Temporal server at {outside.temporal_address}, which has backups of its own: "
            "docs/backup.md says what to save there."
        )
    if not (data_dir / TEMPORAL_DATABASE).is_file():
        raise BackupError(f"{data_dir} holds no tasks. Name the data directory with --data-dir or OUTLAST_DATA_DIR.")
    return outside.temporal_namespace


def _require_whole(data_dir: Path, environment: Mapping[str, str], *, with_secrets: bool) -> DataDirectory:
    """Raise `BackupError` for a directory that a stack would not be started on: nor would the restored one be."""
    outside = look_outside(environment)
    secrets = () if with_secrets else (SEAL_KEYS_FILE, SANDBOX_TOKEN_FILE, POLICY_VARIABLE)
    found = [one for one in broken_parts(data_dir, environment, outside) if not one.startswith(secrets)]
    if found:
        named = "\n".join(f"- {line}" for line in found)
        raise BackupError(
            f"{data_dir} is not whole, and a backup would not be, either:\n{named}\n"
            "Put back what is missing. Where the stack has a variable that this command does not have, set it."
        )
    return data_directory(data_dir, environment, outside)


class _Parts:
    """Where everything is that belongs to one stack."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self.data_dir = data_dir
        self._environment = environment
        url = environment.get("OUTLAST_STORE_URL")
        outputs = store_folder(url, data_dir)
        self.store_url = url if outputs is None else None
        self.trees = [_Tree("sandbox", data_dir / "sandbox"), _Tree("audit", data_dir / "audit")]
        self.trees += [_Tree("outputs", outputs)] if outputs is not None else []

    def databases(self) -> list[str]:
        """The databases, that of the workflows first: what the sandbox did later is to them as a platform's work."""
        return [name for name in (TEMPORAL_DATABASE, SANDBOX_DATABASE) if (self.data_dir / name).is_file()]

    def secrets(self) -> Iterator[tuple[str, bytes]]:
        """The keys and the policy, whether they are in the data directory or the settings name another place."""
        ring = self._environment.get("OUTLAST_SEAL_KEYS")
        if ring:
            yield SEAL_KEYS_FILE, ("\n".join(part.strip() for part in ring.split(",")) + "\n").encode()
        places = {
            SANDBOX_TOKEN_FILE: self.data_dir / SANDBOX_TOKEN_FILE,
            POLICY_FILE: self._named("OUTLAST_POLICY_FILE"),
        }
        if not ring:
            places[SEAL_KEYS_FILE] = self._named("OUTLAST_SEAL_KEYS_FILE") or self.data_dir / SEAL_KEYS_FILE
        for name, path in places.items():
            if path is not None and path.is_file():
                yield name, path.read_bytes()

    def _named(self, variable: str) -> Path | None:
        name = self._environment.get(variable)
        return Path(name) if name else None


class _Tree:
    """A folder whose files are copied, and once more where they have changed."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._copied: dict[Path, tuple[int, int]] = {}

    def copy_news(self, writer: ArchiveWriter) -> None:
        """Copy every file that is not yet copied as it is now."""
        for path in self._folder.rglob("*"):
            if _NEVER_COPIED.fullmatch(path.name) or path.is_symlink() or not path.is_file():
                continue
            try:
                found = path.stat()
                state = (found.st_mtime_ns, found.st_size)
                if self._copied.get(path) != state:
                    writer.add(f"{self._name}/{path.relative_to(self._folder).as_posix()}", path)
                    self._copied[path] = state
            except FileNotFoundError:
                continue  # Removed since the folder was listed.


def _write(writer: ArchiveWriter, parts: _Parts, scratch: Path, manifest: BackupManifest) -> BackupManifest:
    for tree in parts.trees:
        tree.copy_news(writer)
    backed_up_at = datetime.now(UTC)
    for name in parts.databases():
        copy = scratch / Path(name).name
        _snapshot(parts.data_dir / name, copy)
        writer.add(name, copy)
        copy.unlink()
    for tree in parts.trees:
        tree.copy_news(writer)
    for name, content in parts.secrets() if manifest.has_secrets else ():
        writer.add_bytes(name, content)
    return writer.finish(manifest.model_copy(update={"backed_up_at": backed_up_at}))


def _snapshot(database: Path, copy: Path) -> None:
    """Copy a database that others write, as it is at one moment. It holds nobody up: readers of a WAL lock nothing."""
    source = f"file:{quote(str(database.absolute()))}?mode=rw"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=_BUSY_SECONDS)) as live,
        closing(sqlite3.connect(copy)) as snapshot,
    ):
        live.backup(snapshot)
        snapshot.execute("PRAGMA journal_mode = DELETE")  # one file, without a WAL beside it
