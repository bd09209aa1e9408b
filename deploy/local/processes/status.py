"""The state of one supervised process, as `stack.json` and `outlast doctor` show it."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


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
