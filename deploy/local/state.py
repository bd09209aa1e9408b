"""State of a running stack in `stack.json`, its events, and the private files with the stack's own secrets.

Other programs find the stack by `stack.json`, and the next stack reads the previous ports from it.
"""

import base64
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, cast

from pydantic import BaseModel, ConfigDict, ValidationError

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


FILE_NAME = "stack.json"


class ProcessState(StrEnum):
    """State of a process."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    """The process ended and is started again after a pause."""
    STOPPED = "stopped"


class ProcessStatus(BaseModel):
    """Current status of a process."""

    model_config = ConfigDict(frozen=True)

    state: ProcessState
    pid: int | None = None
    """Process id, None while the process is not running."""
    restarts: int = 0
    """Number of restarts since the stack started."""
    metrics_url: str | None = None
    """Address of its metrics, for a process that names it in its ready file."""
    last_end: str | None = None
    """Reason of its last end, with the last lines of its log."""


class StackAddresses(BaseModel):
    """Addresses of a stack; None for a part that is not configured."""

    model_config = ConfigDict(frozen=True)

    api_url: str | None = None
    temporal_address: str | None = None
    temporal_namespace: str = "default"
    temporal_ui_url: str | None = None
    temporal_http_url: str | None = None
    temporal_metrics_url: str | None = None
    apify_api_base_url: str | None = None
    sandbox_url: str | None = None
    docs_site_url: str | None = None
    metrics_url: str | None = None
    """Prometheus metrics of the worker. The API serves its metrics at `/metrics`."""


class StackState(BaseModel):
    """Record of a running stack."""

    model_config = ConfigDict(frozen=True)

    instance_id: str = ""
    """New for every start. The stack's API returns it, so that a client can distinguish it from another program."""
    pid: int
    started_at: str
    """ISO 8601, UTC."""
    addresses: StackAddresses
    parts: dict[str, ProcessStatus]
    """Supervised processes by component."""
    ports: dict[str, int]
    port_notes: tuple[str, ...] = ()
    """One sentence for each default port that was taken, because a stack in the background has no terminal."""
    tool_modules: tuple[str, ...] = ()
    """The user's modules of tools: names, or absolute paths of files. Further MCP servers load them, too."""
    mcp_servers_file: Path | None = None
    """The file with MCP servers whose tools the stack offers. Further MCP servers offer them, too."""
    builtin_tools: str = "on"
    """OUTLAST_BUILTIN_TOOLS of the stack. It applies to further MCP servers, too."""
    folder: Path | None = None
    """Folder in which the stack was started. Names of modules are resolved there."""

    @property
    def children(self) -> dict[str, int]:
        """Process ids of the running parts, by component."""
        return {name: part.pid for name, part in self.parts.items() if part.pid is not None}

    @property
    def is_ready(self) -> bool:
        """True if all parts of the stack are ready."""
        return bool(self.parts) and all(part.state is ProcessState.READY for part in self.parts.values())


def write_state(data_dir: Path, state: StackState) -> None:
    """Replace the file in one step: a reader sees the old or the new content."""
    replace_file(data_dir / FILE_NAME, f"{state.model_dump_json(indent=2)}\n", is_durable=False)


def read_state(data_dir: Path) -> StackState | None:
    """Return the state that the last stack on this directory wrote, running or not; None if it cannot be read."""
    try:
        return StackState.model_validate_json((data_dir / FILE_NAME).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def find_running(data_dir: Path) -> StackState | None:
    """Return the stack that is running on this directory, or None. A file left by a stack that died is ignored."""
    state = read_state(data_dir)
    return state if state is not None and _is_locked(data_dir) else None


def _is_locked(data_dir: Path) -> bool:
    try:
        with (data_dir / "stack.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def reachable_host(host: str) -> str:
    """Return the host to call for a server that listens on `host`, which may be a wildcard."""
    loopback = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 (compared, not bound)
    return f"[{loopback}]" if ":" in loopback else loopback


def http_url(host: str, port: int) -> str:
    """Return the address of a server on this host and port, without a trailing slash."""
    return f"http://{reachable_host(host)}:{port}"


class StackEventKind(StrEnum):
    """Kind of an event."""

    STARTING = "starting"
    READY = "ready"
    PORT_CHANGED = "port_changed"
    EXITED = "exited"
    RESTARTING = "restarting"
    RELOADING = "reloading"
    """The user's tools have changed; worker and API are replaced."""
    RELOAD_FAILED = "reload_failed"
    """The user's tools have changed and cannot be loaded; worker and API are not replaced."""
    BEGIN_ANEW = "begin_anew"
    """Result of `--begin-anew` for the data directory."""
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StackEvent:
    """Event: `component` is the name of a process or `stack`, `message` a sentence to print."""

    kind: StackEventKind
    component: str
    message: str

    def as_json(self) -> str:
        """Return the event as one line of JSON."""
        return json.dumps({"event": self.kind.value, "component": self.component, "message": self.message})


OnEvent = Callable[[StackEvent], None]
"""Called in the stack's event loop for every event; it must not block."""


def ignore_event(event: StackEvent) -> None:
    """Do nothing with an event."""
    del event
