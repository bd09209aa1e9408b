"""Backups: made of a stack that may be running, and restored into an empty data directory.

A backup is a tar archive, compressed with zstandard. Its last entry, `backup.json`, has the size and the SHA-256 of
every other entry. If a file was replaced during the backup, its name occurs twice and the later entry is valid.
"""

import hashlib
import io
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Literal
from urllib.parse import quote

import zstandard
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from outlast.deploy.local import data_directory as directories
from outlast.deploy.local.config import look_outside
from outlast.deploy.local.data_directory import SANDBOX_DATABASE, TEMPORAL_DATABASE, DataDirectory
from outlast.deploy.local.errors import BackupDamagedError, BackupError
from outlast.deploy.local.state import SANDBOX_TOKEN_FILE, SEAL_KEYS_FILE, private_file, private_folder
from outlast.paths import store_folder

_MANIFEST = "backup.json"
_CHUNK_BYTES = 1 << 20
_LARGEST_MANIFEST_BYTES = 1 << 30
_UNFINISHED = "restoring"
POLICY_FILE = "policy.toml"
_BUSY_SECONDS = 30
_NEVER_COPIED = re.compile(r".+#\d+|.+\.sqlite(-wal|-shm)?|.+\.tmp")
"""Files that the store or the sandbox is still writing, and databases, which are copied separately."""


class ArchivedFile(BaseModel):
    """File of a backup."""

    model_config = ConfigDict(frozen=True)

    size_bytes: int
    sha256: str


class BackupManifest(BaseModel):
    """Contents of a backup, and the stack it belongs to."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    outlast_version: str
    backed_up_at: AwareDatetime
    """Time just before the state of the workflows was read."""
    temporal_namespace: str
    store_url: str | None = None
    """Address of the outputs, if they are not in the backup."""
    has_secrets: bool
    belongings: directories.Belongings | None = None
    """Fingerprints of the parts, including secrets that are not in the backup; None in older backups."""
    files: dict[str, ArchivedFile] = {}


def back_up(
    data_dir: Path, target: Path, environment: Mapping[str, str], *, with_secrets: bool = True
) -> BackupManifest:
    """Write the backup of the stack on `data_dir`, running or not, to the new file `target` (mode 0600).

    Raises `BackupError` if there is nothing to back up or `target` exists; `OSError` and `sqlite3.Error` if a file
    cannot be read or written. No incomplete file is left then.
    """
    namespace = _require_embedded_state(data_dir, environment)
    directory = _require_complete(data_dir, environment, with_secrets=with_secrets)
    if target.exists():
        raise BackupError(f"{target} exists already. Select another name for the backup.")
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


def restore(archive: Path, data_dir: Path) -> BackupManifest:
    """Restore a backup into `data_dir`, which must be empty or missing.

    Every file is checked before any of them is moved to its place. Raises `BackupError`, and leaves an empty directory.
    """
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise BackupError(
            f"{data_dir} is not empty. Restore into a new directory (--data-dir), so that nothing is overwritten."
        )
    staging = private_folder(private_folder(data_dir) / _UNFINISHED)
    try:
        manifest = unpack(archive, staging)
        directories.write_restored(staging, directories.Restored(backed_up_at=manifest.backed_up_at))
        directories.write_last_version(staging, _version_of(manifest))
    except BaseException:
        shutil.rmtree(staging)
        raise
    for entry in staging.iterdir():
        entry.rename(data_dir / entry.name)
    staging.rmdir()
    return manifest


def require_finished_restore(data_dir: Path) -> None:
    """Raise `BackupError` if a restore was killed while it moved files to their places."""
    if (data_dir / _UNFINISHED).exists():
        raise BackupError(f"A restore into {data_dir} was interrupted. Remove the directory and restore again.")


class ArchiveWriter:
    """Writer of the entries of a backup."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to `file`, which stays open."""
        # The checksum covers the table of contents, which the digests of the files do not.
        compressor = zstandard.ZstdCompressor(write_checksum=True)
        self._plain = compressor.stream_writer(file, closefd=False)
        self._tar = tarfile.open(fileobj=self._plain, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115 (see finish)
        self._files: dict[str, ArchivedFile] = {}

    def add(self, name: str, path: Path) -> None:
        """Add a file with its current size. Data that is appended during the copy is left out."""
        with path.open("rb") as source:
            self._add(name, source, os.fstat(source.fileno()).st_size)

    def add_bytes(self, name: str, content: bytes) -> None:
        """Add a file with this content."""
        self._add(name, io.BytesIO(content), len(content))

    def finish(self, manifest: BackupManifest) -> BackupManifest:
        """Write the last entry, `manifest` with the files that were added, and return it."""
        complete = manifest.model_copy(update={"files": self._files})
        content = complete.model_dump_json().encode()
        self._tar.addfile(_entry(_MANIFEST, len(content)), io.BytesIO(content))
        self._tar.close()
        self._plain.close()  # pyright: ignore[reportUnknownMemberType] (its stubs leave the type out)
        return complete

    def _add(self, name: str, source: IO[bytes], size: int) -> None:
        hashed = _Hashed(source)
        self._tar.addfile(_entry(name, size), hashed)  # pyright: ignore[reportArgumentType] (it only reads)
        self._files[name] = ArchivedFile(size_bytes=size, sha256=hashed.digest.hexdigest())


class _Hashed:
    """File that is hashed while it is read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        return data


def unpack(archive: Path, into: Path) -> BackupManifest:
    """Write the files of a backup into a folder, readable only by their owner, and check their digests.

    Raises `BackupDamagedError` if the file is not a complete and unchanged backup; `OSError` if it cannot be read.
    """
    written: dict[str, ArchivedFile] = {}
    manifest: BackupManifest | None = None
    try:
        with (
            archive.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file) as plain,
            tarfile.open(fileobj=plain, mode="r|") as tar,
        ):
            for member in tar:
                content = tar.extractfile(member)
                if content is None:
                    raise BackupDamagedError(archive, f"{member.name} is not a file")
                if member.name == _MANIFEST:
                    manifest = BackupManifest.model_validate_json(content.read(_LARGEST_MANIFEST_BYTES))
                else:
                    written[member.name] = _extract(content, _place(into, member.name, archive))
            while plain.read(_CHUNK_BYTES):
                pass  # The checksum is at the end of the stream.
    except (zstandard.ZstdError, tarfile.TarError, EOFError) as error:
        raise BackupDamagedError(archive, str(error) or "it ends too early") from error
    except ValidationError as error:
        raise BackupDamagedError(
            archive, "its table of contents has another form, perhaps of a newer version"
        ) from error
    if manifest is None:
        raise BackupDamagedError(archive, "it has no table of contents: it is incomplete")
    names = written.keys() | manifest.files
    differing = sorted(name for name in names if written.get(name) != manifest.files.get(name))
    if differing:
        raise BackupDamagedError(archive, f"{differing[0]} differs from the file that was backed up")
    return manifest


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


def _place(into: Path, name: str, archive: Path) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
        raise BackupDamagedError(archive, f"{name!r} lies outside of it")
    return into.joinpath(*parts)


def _extract(content: IO[bytes], path: Path) -> ArchivedFile:
    private_folder(path.parent)
    digest, size = hashlib.sha256(), 0
    with private_file(path, "wb") as file:
        while chunk := content.read(_CHUNK_BYTES):
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    return ArchivedFile(size_bytes=size, sha256=digest.hexdigest())


def _require_embedded_state(data_dir: Path, environment: Mapping[str, str]) -> str:
    outside = look_outside(environment)
    if outside.temporal_address:
        raise BackupError(
            f"The tasks are on the Temporal server at {outside.temporal_address}, which has its own backups: "
            "see docs/backup.md for the data to save there."
        )
    if not (data_dir / TEMPORAL_DATABASE).is_file():
        raise BackupError(f"{data_dir} holds no tasks. Name the data directory with --data-dir or OUTLAST_DATA_DIR.")
    return outside.temporal_namespace


def _require_complete(data_dir: Path, environment: Mapping[str, str], *, with_secrets: bool) -> DataDirectory:
    """Raise `BackupError` for a directory on which a stack would not start: the restored one would be refused, too."""
    outside = look_outside(environment)
    secrets = () if with_secrets else (SEAL_KEYS_FILE, SANDBOX_TOKEN_FILE, directories.POLICY_VARIABLE)
    found = [line for line in directories.broken_parts(data_dir, environment, outside) if not line.startswith(secrets)]
    if found:
        named = "\n".join(f"- {line}" for line in found)
        raise BackupError(
            f"{data_dir} is incomplete, and so would be its backup:\n{named}\n"
            "Put the missing parts back. If the stack has a variable that this command does not have, set it."
        )
    return DataDirectory(data_dir, environment, outside)


class _Parts:
    """Places of all parts of one stack."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self.data_dir = data_dir
        self._environment = environment
        url = environment.get("OUTLAST_STORE_URL")
        outputs = store_folder(url, data_dir)
        self.store_url = url if outputs is None else None
        self.trees = [_Tree("sandbox", data_dir / "sandbox"), _Tree("audit", data_dir / "audit")]
        self.trees += [_Tree("outputs", outputs)] if outputs is not None else []

    def databases(self) -> list[str]:
        """Return the databases, that of the workflows first: to them, later changes of the sandbox are as on Apify."""
        return [name for name in (TEMPORAL_DATABASE, SANDBOX_DATABASE) if (self.data_dir / name).is_file()]

    def secrets(self) -> Iterator[tuple[str, bytes]]:
        """Yield the keys and the policy, from the data directory or from the place that the settings name."""
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
    """Folder whose files are copied, and copied again if they have changed."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._copied: dict[Path, tuple[int, int]] = {}

    def copy_changes(self, writer: ArchiveWriter) -> None:
        """Copy every file that is new or has changed since the last call."""
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
    """Copy the files, then the databases, each in one transaction, then the files that have changed since.

    Every object that a workflow of the snapshot names is copied, even if the sweep removes it in between. The sweep of
    the restored stack removes objects that were written after the snapshot. Nothing is stopped or locked.
    """
    for tree in parts.trees:
        tree.copy_changes(writer)
    backed_up_at = datetime.now(UTC)
    for name in parts.databases():
        copy = scratch / Path(name).name
        _snapshot(parts.data_dir / name, copy)
        writer.add(name, copy)
        copy.unlink()
    for tree in parts.trees:
        tree.copy_changes(writer)
    for name, content in parts.secrets() if manifest.has_secrets else ():
        writer.add_bytes(name, content)
    return writer.finish(manifest.model_copy(update={"backed_up_at": backed_up_at}))


def _snapshot(database: Path, copy: Path) -> None:
    """Copy the state of a database that is in use, without blocking it: readers of a WAL lock nothing."""
    source = f"file:{quote(str(database.absolute()))}?mode=rw"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=_BUSY_SECONDS)) as live,
        closing(sqlite3.connect(copy)) as snapshot,
    ):
        live.backup(snapshot)
        snapshot.execute("PRAGMA journal_mode = DELETE")  # one file, without a WAL beside it


def _version_of(manifest: BackupManifest) -> directories.LastVersion:
    """Return the record of the backed up directory for the restored one, which contains the outputs on disk."""
    belongings = manifest.belongings
    if belongings is not None:
        has_outputs = any(name.startswith(f"{directories.OUTPUTS}/owner/") for name in manifest.files)
        store = directories.OWN_STORE if has_outputs else None
        belongings = belongings.model_copy(update={"store": store, "restored": True})
    return directories.LastVersion(outlast_version=manifest.outlast_version, belongings=belongings)
