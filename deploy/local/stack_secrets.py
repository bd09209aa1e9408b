"""Secrets that a stack makes for itself, once, readable by its owner only."""

import base64
import os
import secrets
from pathlib import Path

from outlast.deploy.local.errors import StackError

SEAL_KEYS_FILE = "seal.keys"
SANDBOX_TOKEN_FILE = "sandbox-token"  # noqa: S105 (a file's name)


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
