"""Status of a server: open tasks, queues and workers."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from outlast.contracts.base import Open, Response, absent
from outlast.workflows.contracts.tool_calls import TaskStatus


class TaskCounts(Response):
    """Number of tasks in each state."""

    queued: Annotated[int, absent(0)]
    working: Annotated[int, absent(0)]
    input_required: Annotated[int, absent(0)]
    answered: Annotated[int, absent(0)] = Field(description="Answered tasks whose run continues.")
    completed_last_hour: Annotated[int, absent(0)]
    failed_last_hour: Annotated[int, absent(0)]
    cancelled_last_hour: Annotated[int, absent(0)]


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
    backlog: Annotated[int, absent(0)] = Field(description="Approximate number of steps that wait for a worker.")
    oldest_seconds: Annotated[float, absent(0.0)] = Field(description="How long the first of them has waited.")
    added_per_second: Annotated[float, absent(0.0)]
    taken_per_second: Annotated[float, absent(0.0)]
    pollers: Annotated[int, absent(0)] = Field(
        description="Workers, of `outlast-schedules` APIs, that have asked for work in the last minutes."
    )


class WorkerState(Response):
    """One worker process, as its last requests for work have shown it."""

    identity: str = Field(description="`PID@HOST/XXXX`; the last part is another one for each process.")
    version: str | None = Field(
        default=None, description="Its deployment's build id; without worker versioning, a digest of its code."
    )
    queues: Annotated[tuple[str, ...], absent(())]
    last_seen_at: datetime


class Operations(Response):
    """Current status of the server."""

    at: datetime
    scope: Open[Literal["own", "all"]] = Field(description="Whose tasks these are: `all` with the scope `admin`.")
    counts: TaskCounts
    tasks: Annotated[tuple[OpenTask, ...], absent(())] = Field(description="Open tasks, the latest first, 50 at most.")
    queues: Annotated[tuple[QueueState, ...], absent(())] = Field(description="With the scope `admin`; else empty.")
    workers: Annotated[tuple[WorkerState, ...], absent(())] = Field(description="With the scope `admin`; else empty.")


class CallerHoldings(Response):
    """Resources of a caller that outlast a request, and remain when its keys are revoked."""

    caller: str
    webhooks: Annotated[tuple[str, ...], absent(())] = Field(
        description="Ids of its webhooks, which still get events of its tasks."
    )
    schedules: Annotated[tuple[str, ...], absent(())] = Field(
        description="Ids of its schedules, 200 at most. They start nothing while it has no key that may."
    )
    saved_calls: Annotated[tuple[str, ...], absent(())] = Field(description="Names of its saved calls.")
    open_tasks: Annotated[int, absent(0)] = Field(description="Its tasks that have not ended. They continue.")
    open_streams: Annotated[int, absent(0)] = Field(
        description="Its streams that are open at the API process that answers. They end with the key that opened them."
    )


class Readiness(Response):
    """Readiness for tasks, and the reasons if not ready."""

    ready: bool
    checks: dict[str, Open[Literal["ok", "failing"]]]
