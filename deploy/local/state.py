"""`stack.json`: how other programs find a running stack, and how the next stack finds the last one's ports."""

import fcntl
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from outlast.deploy.local.private_files import private_file
from outlast.deploy.local.processes.status import ProcessState, ProcessStatus
from outlast.deploy.local.stack_addresses import StackAddresses

FILE_NAME = "stack.json"


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
