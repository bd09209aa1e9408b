"""How a server is doing: open tasks, queues and workers, as every front door shows it."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from outlast.contracts.base import Open, Response
from outlast.workflows.contracts.tool_calls import TaskStatus


class TaskCounts(Response):
    """How many tasks are in which state."""

    queued: int
    working: int
    input_required: int
    answered: int = Field(description="Tasks that were answered and whose run goes on.")
    completed_last_hour: int
    failed_last_hour: int
    cancelled_last_hour: int


class OpenTask(Response):
    """One open task, without anything of its content."""

    id: str
    tool: str
    caller: str
    actor: str | None = None
    status: Open[TaskStatus]
    started_at: datetime


class QueueState(Response):
    """One task queue of Temporal."""

    queue: str
    kind: Open[Literal["workflows", "activities"]]
    backlog: int = Field(description="Approximate number of steps that wait for a worker.")
    oldest_seconds: float = Field(description="How long the first of them has waited.")
    added_per_second: float
    taken_per_second: float
    pollers: int = Field(
        description="Workers, of `outlast-schedules` APIs, that have asked for work in the last minutes."
    )


class WorkerState(Response):
    """One worker process, as its last requests for work have shown it."""

    identity: str = Field(description="`PID@HOST/XXXX`; the last part is another one for each process.")
    version: str | None = Field(
        default=None, description="Its deployment's build id; without worker versioning, a digest of its code."
    )
    queues: tuple[str, ...]
    last_seen_at: datetime


class Operations(Response):
    """How the server is doing now."""

    at: datetime
    scope: Open[Literal["own", "all"]] = Field(description="Whose tasks these are: `all` with the scope `admin`.")
    counts: TaskCounts
    tasks: tuple[OpenTask, ...] = Field(description="Open tasks, the latest first, 50 at most.")
    queues: tuple[QueueState, ...] = Field(description="With the scope `admin`; else empty.")
    workers: tuple[WorkerState, ...] = Field(description="With the scope `admin`; else empty.")


class CallerHoldings(Response):
    """What a caller has that lasts longer than a request: it stays when its keys are revoked."""

    caller: str
    webhooks: tuple[str, ...] = Field(description="Ids of its webhooks, which go on getting events of its tasks.")
    schedules: tuple[str, ...] = Field(
        description="Ids of its schedules, 200 at most. They start nothing while it has no key that may."
    )
    saved_calls: tuple[str, ...] = Field(description="Names of its saved calls.")
    open_tasks: int = Field(description="Its tasks that have not ended. They go on.")
    open_streams: int = Field(
        description="Its streams that are open at the API process that answers. They end with the key that opened them."
    )


class Readiness(Response):
    """Whether tasks can be taken, and if not, what is missing."""

    ready: bool
    checks: dict[str, Open[Literal["ok", "failing"]]]
