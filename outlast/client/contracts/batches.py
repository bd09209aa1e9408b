"""Batches, and the rows of their results."""

from datetime import datetime

from pydantic import Field, JsonValue

from outlast.client.contracts.base import Response
from outlast.client.contracts.tasks import Reused, ToolError

WORKING = "working"


class Batch(Response):
    """One tool for many inputs, and how far it is. Money is in US dollars."""

    id: str
    name: str | None = None
    tool: str
    mode: str = "default"
    actor: str | None = None
    schedule_id: str | None = None
    """The schedule that has started it."""
    status: str
    """`working`, `completed`, `stopped` or `cancelled`."""
    status_message: str | None = None
    stopped_by: str | None = None
    """Why it stopped before all items had run, such as `failures` or `money`."""
    created_at: datetime
    finished_at: datetime | None = None
    total: int
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    under_way: int = 0
    waiting: int = 0
    rows: int = 0
    """Rows of the completed items' answers."""
    cost_usd: float = 0.0
    budget_usd: float | None = None
    per_minute: float | None = None
    """Items that ended in a minute, lately."""
    seconds_left: float | None = None
    results: str
    """Locator of its results."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    workflow_url: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is at work. What stopped can be resumed, what failed be retried."""
        return self.status != WORKING

    @property
    def ended(self) -> int:
        """Items with a row among the results."""
        return self.completed + self.failed + self.cancelled


class BatchPage(Response):
    """One page of batches."""

    batches: tuple[Batch, ...]
    next_page_token: str | None = None


class BatchRow(Response):
    """One item of a batch, and its outcome."""

    key: str
    index: int
    """Its place among the items, from 0."""
    status: str
    """`completed`, `failed` or `cancelled`."""
    task_id: str
    attempts: int = 1
    reused: Reused | None = None
    """Of an item that the task of an equal call has answered."""
    run_id: str | None = None
    dataset_id: str | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    rows: int | None = None
    """How many rows the answer has."""
    items: list[JsonValue] | None = None
    """The rows, when they are few."""
    locator: str | None = None
    """Where the whole answer is stored, when it is large."""
    result: dict[str, JsonValue] | None = None
    text: str | None = None
    truncated: bool = False
    """Whether the answer is too large for a row; the task has it."""
    error: ToolError | None = None
