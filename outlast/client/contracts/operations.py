"""How a server is doing, as it tells it."""

from datetime import datetime

from outlast.client.contracts.base import Response


class TaskCounts(Response):
    """How many tasks are in which state."""

    queued: int = 0
    working: int = 0
    input_required: int = 0
    answered: int = 0
    """Answered already, while their run goes on."""
    completed_last_hour: int = 0
    failed_last_hour: int = 0
    cancelled_last_hour: int = 0


class OpenTask(Response):
    """One open task."""

    id: str
    tool: str
    caller: str
    actor: str | None = None
    status: str
    started_at: datetime


class QueueState(Response):
    """One task queue of Temporal."""

    queue: str
    kind: str
    """`workflows` or `activities`."""
    backlog: int = 0
    oldest_seconds: float = 0.0
    added_per_second: float = 0.0
    taken_per_second: float = 0.0
    pollers: int = 0


class WorkerState(Response):
    """One worker process."""

    identity: str
    version: str | None = None
    queues: tuple[str, ...] = ()
    last_seen_at: datetime


class Operations(Response):
    """How a server is doing now. Only callers with the scope `admin` see queues and workers."""

    at: datetime
    scope: str
    """`own` or `all`: whose tasks these are."""
    counts: TaskCounts
    tasks: tuple[OpenTask, ...] = ()
    queues: tuple[QueueState, ...] = ()
    workers: tuple[WorkerState, ...] = ()


class CallerHoldings(Response):
    """What a caller has that lasts longer than a request: it stays when its keys are revoked."""

    caller: str
    webhooks: tuple[str, ...] = ()
    """Ids."""
    schedules: tuple[str, ...] = ()
    """Ids, 200 at most."""
    saved_calls: tuple[str, ...] = ()
    """Names."""
    open_tasks: int = 0
    open_streams: int = 0
    """At the API process that answered."""
