"""The file of a backup: a tar archive, compressed with zstandard, whose last entry says what is in it.

The last entry, `backup.json`, has the size and the SHA-256 of every other one. A file without it is not whole. A name
may occur twice, when the file was replaced while the backup was made: the later one counts.
"""

import hashlib
import io
import os
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Literal

import zstandard
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from outlast.deploy.local.backups.errors import BackupDamagedError
from outlast.deploy.local.backups.last_version import Belongings
from outlast.deploy.local.private_files import private_file, private_folder

_MANIFEST = "backup.json"
_CHUNK_BYTES = 1 << 20
_LARGEST_MANIFEST_BYTES = 1 << 30


class ArchivedFile(BaseModel):
    """One file of a backup."""

    model_config = ConfigDict(frozen=True)

    size_bytes: int
    sha256: str


class BackupManifest(BaseModel):
    """Contents of a backup, and the stack it belongs to."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    outlast_version: str
    backed_up_at: AwareDatetime
    """Just before the state of the workflows was read: what happened later is not in it."""
    temporal_namespace: str
    store_url: str | None = None
    """Where the outputs are, when they are not in the backup."""
    has_secrets: bool
    belongings: Belongings | None = None
    """Fingerprints of what belongs together, of the secrets also where they are left out; None in older backups."""
    files: dict[str, ArchivedFile] = {}


class ArchiveWriter:
    """Writes the entries of a backup one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to `file`, which stays open."""
        # The checksum covers what the digests of the files do not: the table of contents itself.
        compressor = zstandard.ZstdCompressor(write_checksum=True)
        self._plain = compressor.stream_writer(file, closefd=False)
        self._tar = tarfile.open(fileobj=self._plain, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115 (see finish)
        self._files: dict[str, ArchivedFile] = {}

    def add(self, name: str, path: Path) -> None:
        """Add a file as it is now. What is appended meanwhile is left out."""
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
    """A file that is hashed while it is read."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        return data


def unpack(archive: Path, into: Path) -> BackupManifest:
    """Write the files of a backup into a folder, for their owner only, and check each against its digest.

    Raises `BackupDamagedError` when the archive is none, not whole, or was changed; `OSError` when it cannot be read.
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
                    raise BackupDamagedError(archive, f"{member.name} is no file")
                if member.name == _MANIFEST:
                    manifest = BackupManifest.model_validate_json(content.read(_LARGEST_MANIFEST_BYTES))
                else:
                    written[member.name] = _write(content, _place(into, member.name, archive))
            while plain.read(_CHUNK_BYTES):
                pass  # The checksum stands at the end of the stream.
    except (zstandard.ZstdError, tarfile.TarError, EOFError) as error:
        raise BackupDamagedError(archive, str(error) or "it ends too early") from error
    except ValidationError as error:
        raise BackupDamagedError(
            archive, "its table of contents is of another form; is it a newer version's?"
        ) from error
    if manifest is None:
        raise BackupDamagedError(archive, "it has no table of contents: it is not whole")
    differing = sorted(
        name for name in written.keys() | manifest.files if written.get(name) != manifest.files.get(name)
    )
    if differing:
        raise BackupDamagedError(archive, f"{differing[0]} is not what was backed up")
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


def _write(content: IO[bytes], path: Path) -> ArchivedFile:
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
