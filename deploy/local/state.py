"""The state of a running stack, recorded in `stack.json`, and the events that it reports.

Other programs find the stack by the file, and the next stack finds the ports of the last one in it.
"""

import fcntl
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from outlast.deploy.local.private_files import private_file

FILE_NAME = "stack.json"


class ProcessState(StrEnum):
    """State of a process."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    """It ended, and is started again after a pause."""
    STOPPED = "stopped"


class ProcessStatus(BaseModel):
    """One process now."""

    model_config = ConfigDict(frozen=True)

    state: ProcessState
    pid: int | None = None
    """Process id, None while none runs."""
    restarts: int = 0
    """How often it was started again since the stack started."""
    metrics_url: str | None = None
    """Where its metrics are, for a process that names the address in its ready file."""
    last_end: str | None = None
    """Why it ended the last time, with the last lines of its log."""


class StackAddresses(BaseModel):
    """The addresses of one stack; None for a part that it does not run and does not know."""

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
    """The worker's Prometheus metrics. The API has its own at `/metrics`."""


class StackState(BaseModel):
    """Record of a running stack."""

    model_config = ConfigDict(frozen=True)

    instance_id: str = ""
    """New for every start. The stack's API returns it, so that a client can tell the API from another program's."""
    pid: int
    started_at: str
    """ISO 8601, UTC."""
    addresses: StackAddresses
    parts: dict[str, ProcessStatus]
    """The supervised processes by component."""
    ports: dict[str, int]
    port_notes: tuple[str, ...] = ()
    """A sentence for each default port that was taken: a stack in the background has no terminal to say it on."""
    tool_modules: tuple[str, ...] = ()
    """The user's modules of tools: names, or absolute paths of files. Further MCP servers load them, too."""
    folder: Path | None = None
    """Folder in which the stack was started: names of modules are looked up there."""

    @property
    def children(self) -> dict[str, int]:
        """Process ids of the running parts, by component."""
        return {name: part.pid for name, part in self.parts.items() if part.pid is not None}

    @property
    def is_ready(self) -> bool:
        """Whether everything that the stack runs is ready."""
        return bool(self.parts) and all(part.state is ProcessState.READY for part in self.parts.values())


def write_state(data_dir: Path, state: StackState) -> None:
    """Replace the file in one step: a reader sees the old one or the new one."""
    draft = data_dir / f"{FILE_NAME}.tmp"
    with private_file(draft, "wb") as file:
        file.write(f"{state.model_dump_json(indent=2)}\n".encode())
    draft.replace(data_dir / FILE_NAME)


def read_state(data_dir: Path) -> StackState | None:
    """Return what the last stack on this directory wrote, running or not; None when there is nothing legible."""
    try:
        return StackState.model_validate_json((data_dir / FILE_NAME).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def find_running(data_dir: Path) -> StackState | None:
    """Return the stack that runs on this directory now, or None. A file left behind by a dead stack is not believed."""
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
    """Every kind of event."""

    STARTING = "starting"
    READY = "ready"
    PORT_CHANGED = "port_changed"
    EXITED = "exited"
    RESTARTING = "restarting"
    RELOADING = "reloading"
    """The user's tools have changed; worker and API are replaced."""
    RELOAD_FAILED = "reload_failed"
    """The user's tools have changed and cannot be loaded; worker and API stay as they are."""
    BEGIN_ANEW = "begin_anew"
    """What `--begin-anew` has done to the data directory."""
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StackEvent:
    """One thing that happened: `component` is a process's name or `stack`, `message` a sentence to print."""

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
