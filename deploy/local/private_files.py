"""Files and folders that only their owner can read, and the secrets that a stack makes for itself and keeps in them."""

import base64
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO, cast

from outlast.deploy.local.errors import StackError

SEAL_KEYS_FILE = "seal.keys"
SANDBOX_TOKEN_FILE = "sandbox-token"  # noqa: S105 (a file's name)
UMASK = 0o077
"""Mask of every process of a stack: only its owner can read the files that it creates."""
_MARKS = ("stack.lock", "users.lock", "stack.json", "seal.keys")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_folder(path: Path) -> Path:
    """Create the folder, and those above it that are missing, for their owner only; an existing one stays."""
    if not path.is_dir():
        private_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def private_file(path: Path, mode: str) -> BinaryIO:
    """`open` in a binary mode; a file that is created is for its owner only."""
    return cast("BinaryIO", open(path, mode, opener=_open_private))


def private_data_dir(path: Path) -> Path:
    """Create the data directory for its owner only; tighten one that an earlier version left readable by others.

    A folder that holds other things than a stack's keeps its own mode: it may be `/tmp`, or shared on purpose.
    `outlast doctor` warns about it. What the stack makes in it is private in any case.
    """
    if path.is_dir() and not _is_ours(path):
        return path
    private_folder(path)
    tighten(path)
    for entry in _entries(path):
        tighten(entry)
        for inner in _entries(entry):
            tighten(inner)
    return path


def tighten(path: Path) -> None:
    """Take the rights of others away. Links, and what belongs to another user, stay as they are."""
    found = path.lstat()
    if not stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)


def is_private(path: Path) -> bool:
    """Whether only its owner has any right to the folder."""
    return not path.stat().st_mode & _OTHERS


def ensure_seal_keys(data_dir: Path) -> Path:
    """Return the file with the keys that seal secrets, after making it with one random key if there is none.

    One key per line, `KEYID:base64(32 bytes)`. Without it, sealed secrets of open tasks are unreadable.
    """
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    return _write_once(data_dir / SEAL_KEYS_FILE, f"k{secrets.token_hex(4)}:{key}\n")


def ensure_sandbox_token(data_dir: Path) -> str:
    """Return the token of the sandbox platform's user, the same one in every run on this directory."""
    _write_once(data_dir / SANDBOX_TOKEN_FILE, f"apify_api_{secrets.token_urlsafe(27)}\n")
    return read_sandbox_token(data_dir)


def read_sandbox_token(data_dir: Path) -> str:
    """Return the token of the sandbox platform's user. Raises `StackError` where there is none."""
    path = data_dir / SANDBOX_TOKEN_FILE
    token = path.read_text().strip() if path.is_file() else ""
    if not token:
        raise StackError(f"{path} is missing or empty: it holds the token of the sandbox platform. Put it back.")
    return token


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write_once(path: Path, content: str) -> Path:
    """Create the file in one step with mode 0600; an existing one is kept as it is."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    if not path.exists():
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    return path


def _is_ours(path: Path) -> bool:
    names = {entry.name for entry in _entries(path)}
    return not names or not names.isdisjoint(_MARKS)


def _entries(path: Path) -> list[Path]:
    return list(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
