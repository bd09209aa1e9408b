"""A client's configuration file: read, and replaced as a whole, with a copy of what it was."""

import codecs
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from outlast.cli.errors import CliError, ExitCode

_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a file holds: `content` is None where there is none."""

    path: Path
    content: bytes | None

    @property
    def text(self) -> str:
        """Its text, without the mark that some editors begin a file with. Raises `CliError`."""
        try:
            return (self.content or b"").removeprefix(codecs.BOM_UTF8).decode()
        except UnicodeDecodeError as error:
            raise _unchanged(self.path, f"it is not UTF-8 (byte {error.start})") from None

    def replace(self, text: str) -> Path | None:
        """Write `text` in its place, and return where the copy of what was there is.

        Readers see the old file or the new one, whole; its mode and owner stay, and a new file is for its owner only.
        A link stays one. Raises `CliError`, also when somebody has changed the file since it was read.
        """
        mark = codecs.BOM_UTF8 if (self.content or b"").startswith(codecs.BOM_UTF8) else b""
        try:
            return self._replace(mark + text.encode())
        except OSError as error:
            raise _unchanged(self.path, error.strerror or str(error)) from error

    def _replace(self, content: bytes) -> Path | None:
        target = self.path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if self.content is not None else _PRIVATE
        backup = _written(self._backup_path(target), self.content, mode) if self.content is not None else None
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            new = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            new.chmod(mode)
            _keep_owner(new, target)
            if _content(target) != self.content:
                raise _unchanged(self.path, "another program has just changed it", hint="Run the command again.")
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)
        return backup

    def _backup_path(self, target: Path) -> Path:
        """Beside it, with the time in its name: no copy replaces an earlier one."""
        moment = datetime.now(UTC)
        first = target.with_name(f"{target.name}.{moment:%Y%m%dT%H%M%SZ}.bak")
        return first if not first.exists() else target.with_name(f"{target.name}.{moment:%Y%m%dT%H%M%S.%fZ}.bak")


def read_config(path: Path) -> ConfigFile:
    """The file at `path`, which need not exist. Raises `CliError`."""
    try:
        return ConfigFile(path, _content(path))
    except OSError as error:
        raise _unchanged(path, error.strerror or str(error)) from error


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _written(path: Path, content: bytes, mode: int) -> Path:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, _PRIVATE)) as file:
        file.write(content)
    path.chmod(mode)
    return path


def _keep_owner(new: Path, old: Path) -> None:
    """Let root change another user's file without taking it from them."""
    if not old.exists() or not hasattr(os, "chown"):
        return
    was, now = old.stat(), new.stat()
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        os.chown(new, was.st_uid, was.st_gid)


def _unchanged(path: Path, reason: str, *, hint: str | None = None) -> CliError:
    return CliError(f"{path} was not changed: {reason}.", exit_code=ExitCode.FAILED, hint=hint)
