"""Files and folders that only their owner can read, and the stack's own secrets in them."""

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
    """Create the folder and missing parents for their owner only; existing folders are not changed."""
    if not path.is_dir():
        private_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def private_file(path: Path, mode: str) -> BinaryIO:
    """Open a file in a binary mode; a new file is readable only by its owner."""
    return cast("BinaryIO", open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600)))


def replace_file(path: Path, text: str, *, is_durable: bool = True) -> None:
    """Replace the content of a file in one step; if `is_durable`, it is on the disk when this returns."""
    draft = path.with_name(f"{path.name}.tmp")
    with private_file(draft, "wb") as file:
        file.write(text.encode())
        if is_durable:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(path)


def private_data_dir(path: Path) -> Path:
    """Create the data directory for its owner only; tighten one that an earlier version left readable by others.

    A folder with files of other programs keeps its mode: it may be `/tmp`, or shared on purpose. `outlast doctor` warns
    about it. The files of the stack in it are private in any case.
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
    """Remove the rights of other users. Links and files of another user are not changed."""
    found = path.lstat()
    if not stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)


def is_private(path: Path) -> bool:
    """Return whether only its owner has rights to the folder."""
    return not path.stat().st_mode & _OTHERS


def ensure_seal_keys(data_dir: Path) -> Path:
    """Return the file with the keys that encrypt secrets; a missing file is created with one random key.

    One key per line, `KEYID:base64(32 bytes)`. Without it, encrypted secrets of open tasks are unreadable.
    """
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    return _write_once(data_dir / SEAL_KEYS_FILE, f"k{secrets.token_hex(4)}:{key}\n")


def ensure_sandbox_token(data_dir: Path) -> str:
    """Return the token of the sandbox platform's user, and create it on first use."""
    _write_once(data_dir / SANDBOX_TOKEN_FILE, f"apify_api_{secrets.token_urlsafe(27)}\n")
    return read_sandbox_token(data_dir)


def read_sandbox_token(data_dir: Path) -> str:
    """Return the token of the sandbox platform's user. Raises `StackError` if it is missing."""
    path = data_dir / SANDBOX_TOKEN_FILE
    token = path.read_text().strip() if path.is_file() else ""
    if not token:
        raise StackError(f"{path} is missing or empty: it holds the token of the sandbox platform. Put it back.")
    return token


def _write_once(path: Path, content: str) -> Path:
    """Create the file in one step with mode 0600; an existing file is not changed."""
    if not path.exists():
        replace_file(path, content)
    return path


def _is_ours(path: Path) -> bool:
    names = {entry.name for entry in _entries(path)}
    return not names or not names.isdisjoint(_MARKS)


def _entries(path: Path) -> list[Path]:
    return list(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
