"""Contracts of batches: options, the state between rounds, and the input of a round. Money is exact. A batch is
one tool over many items. A round starts items, awaits them, and writes their rows; its state is flat: its size depends
on the window, not on the number of items.
"""

import hashlib
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from outlast.activities.bounds import PositiveCount, PositiveSeconds, Usd, rounded_usd
from outlast.activities.contracts import OPEN, Contract, ErrorCategory, ErrorEnvelope, JsonObject

BATCH_WORKFLOW = "BatchWorkflow"
BATCH_ATTRIBUTE = "OutlastBatch"
"""Search attribute of a batch's workflow and of its items."""

MAX_CONCURRENCY = 1_000
MAX_RETRIES = 10
MAX_KEY_CHARS = 200
MAX_ITEM_BYTES = 64 * 1024
"""Size of one item's arguments. Larger inputs of Actors are kept apart from their calls, which items are not."""
SHARE_JUDGED_FROM = 20
"""Number of ended items from which the share of failures counts: of one item, all may have failed."""
ROUND_ITEMS = 1_000
"""Most items that one round starts."""

_EXACT = Decimal("0.000001")

ItemStatus = Literal["completed", "failed", "cancelled"]
RowOrder = Literal["given", "any"]


class StopRule(Contract):
    """Conditions that stop a batch before all items have run. A stopped batch can be resumed."""

    failures: PositiveCount | None = Field(default=None, description="Stop when this many items have failed.")
    failure_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description=f"Stop when this share of the ended items has failed; evaluated from {SHARE_JUDGED_FROM} items on.",
    )
    categories: tuple[ErrorCategory, ...] = Field(
        default=(ErrorCategory.PAYMENT, ErrorCategory.AUTHENTICATION),
        max_length=len(ErrorCategory),
        description="Stop when an item fails with one of these, since the others would fail, too.",
    )
    seconds: PositiveSeconds | None = Field(
        default=None, description="Stop this many seconds after the start or resume."
    )
    completed: PositiveCount | None = Field(default=None, description="Stop when this many items are completed.")
    rows: PositiveCount | None = Field(default=None, description="Stop when the answers have this many rows.")
    under_way: Literal["finish", "cancel"] = Field(
        default="finish", description="Treatment of the running items when the batch stops."
    )


class BatchOptions(Contract):
    """Options that control how a batch runs."""

    concurrency: int = Field(default=10, ge=1, le=MAX_CONCURRENCY, description="Maximum number of concurrent items.")
    order: RowOrder = Field(
        default="any", description="Order of the rows: `given`, that of the items, or `any`, as the items end."
    )
    retries: dict[ErrorCategory, Annotated[int, Field(ge=0, le=MAX_RETRIES)]] = Field(
        default={},
        max_length=len(ErrorCategory),
        description=f"By category of error: how often an item that fails with it is retried, at most {MAX_RETRIES} "
        f"times.",
    )
    budget_usd: Usd | None = Field(default=None, description="Maximum cost of all items together, in US dollars.")
    stop: StopRule = StopRule()


class StopReason(StrEnum):
    """The reason why a batch stopped before all items had run."""

    CANCELLED = "cancelled"
    FAILURES = "failures"
    CATEGORY = "category"
    MONEY = "money"
    TIME = "time"
    ENOUGH = "enough"
    DEFECT = "defect"


Stop = tuple[StopReason, str]
"""Reason for stopping a batch, and the same as a sentence."""


class Lines(Contract):
    """Lines of JSON in the store: the digest of the index that names their blocks."""

    digest: str = Field(pattern="^[0-9a-f]{64}$")
    count: int = Field(ge=0)


class EqualCalls(Contract):
    """The calls that an item is equal to, see `outlast.worker.item_tasks`."""

    digest: str = Field(min_length=1, description="Digest of what they have in common.")
    max_age_seconds: float | None = Field(
        default=None,
        description="Maximum age of an answer that is reused for the item; if absent, the item always starts.",
    )


class ReusedAnswer(Contract):
    """The item has the answer of an identical call, which it did not start."""

    joined: bool = Field(description="Whether that task was still running when the item found it.")
    age_seconds: float = Field(description="Age of the answer at that time.")


class MetTask(Contract):
    """The task that an item follows."""

    task_id: str
    reused: ReusedAnswer | None = Field(default=None, description="None: the item's own task.")


class ItemLine(Contract):
    """One item, as it is kept: where it differs from the batch's call."""

    key: str
    call: JsonObject = Field(description="Fields of `ToolCall` specific to the item: at least its arguments.")
    summary: JsonObject = Field(description="Fields of `TaskSummary` specific to the item.")
    equal: EqualCalls | None = Field(default=None, description="Set if an identical call may answer it.")
    row: JsonObject | None = Field(
        default=None, description="The row as it was given, if it differs from the arguments."
    )


class Slot(Contract):
    """A running item: it was started, and its row is not among the results yet."""

    position: int = Field(description="Position in the list that runs.")
    index: int = Field(description="Number of the item in the given order; the first is 0.")
    attempt: int = Field(ge=1, description="The latest attempt; a part of the task's id.")
    first_attempt: int = Field(default=1, description="The first attempt since the start, the retry or the resume.")
    started: bool = Field(default=False, description="Whether its task is known to exist.")
    met: MetTask | None = Field(default=None, description="Its task, if identical calls share one.")
    reserved_usd: Decimal = Field(default=Decimal(0), description="Maximum cost of the latest attempt.")
    spent_usd: Decimal = Field(default=Decimal(0), description="Cost of the attempts before it.")

    @property
    def is_shared(self) -> bool:
        """True if the item follows a task that another caller or call has started."""
        return self.met is not None and self.met.reused is not None


class Counts(Contract):
    """Numbers of items that have ended, and of rows in their answers."""

    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    rows: int = 0

    @property
    def ended(self) -> int:
        """Items with a row."""
        return self.completed + self.failed + self.cancelled

    def plus(self, status: ItemStatus, rows: int) -> "Counts":
        """With one more item."""
        return self.model_copy(update={status: getattr(self, status) + 1, "rows": self.rows + rows})


class StoredTail(Contract):
    """The last part of growing results: it is rewritten until it is large enough."""

    key: str
    size: int
    raw_size: int
    rows: int
    digest: str


class ResultsState(Contract):
    """The place of a batch's rows. An attempt builds on this state, whatever another attempt has written."""

    leg: int = Field(default=1, description="1 for the first pass; each retry or resume adds 1.")
    parts: str | None = Field(default=None, description="Digest of the object that names the closed parts.")
    closed: int = Field(default=0, description="Number of closed parts.")
    tail: StoredTail | None = None
    rows: int = 0


class BatchState(Contract):
    """The outcome of a batch so far: the result of a round, and the details of its heartbeats."""

    plan: Lines | None = Field(
        default=None, description="List of `[index, attempts]` to run; None: all items in order."
    )
    plan_end: int = Field(description="End of the list that runs now.")
    cursor: int = Field(default=0, description="All before this position of the list has been started.")
    beyond: tuple[int, ...] = Field(default=(), description="Later positions whose rows are written already.")
    under_way: tuple[Slot, ...] = ()
    counts: Counts = Counts()
    cost_usd: Decimal = Decimal(0)
    highest_usd: Decimal = Field(default=Decimal(0), description="Cost of the most expensive item.")
    results: ResultsState = ResultsState()
    stop: StopReason | None = None
    stop_words: str | None = Field(default=None, description="The reason in a sentence.")
    waits_because: str | None = Field(
        default=None, description="Reason why nothing starts at the moment, in a sentence."
    )
    stop_before: StopReason | None = Field(
        default=None, description="In a retry: reason why the other items have not run."
    )
    stop_before_words: str | None = None
    per_minute: float | None = Field(default=None, description="Recent number of items that end per minute.")

    @property
    def reserved_usd(self) -> Decimal:
        """The cost so far of running items, and what they may still cost."""
        return sum((slot.reserved_usd + slot.spent_usd for slot in self.under_way), Decimal(0))

    @property
    def has_more(self) -> bool:
        """True if items have not been started yet."""
        return self.cursor < self.plan_end


class BatchPlace(Contract):
    """Whose batch it is, and what all of its items have in common."""

    batch_id: str
    caller_id: str
    call: JsonObject = Field(description="The `ToolCall` without the fields specific to items.")
    summary: JsonObject = Field(description="The `TaskSummary` without the fields specific to items.")
    items: Lines
    starts_runs: bool = Field(description="Whether items start runs of Actors, for which they may have to wait.")
    is_paid: bool = Field(description="Whether items may cost money.")
    share: int = Field(ge=1, description="Maximum number of concurrent tasks of the caller.")
    is_fair: bool = Field(default=False, description="Whether callers get equal shares of the workers.")
    ttl_seconds: int = Field(gt=0, description="Retention of the results.")

    @property
    def own_limit_usd(self) -> Decimal | None:
        """Limit on the cost of one call, by its own budget."""
        found: JsonValue = self.call
        for name in ("options", "budget", "max_total_charge_usd"):
            found = found.get(name) if isinstance(found, dict) else None
        return Decimal(str(found)) if isinstance(found, int | float | str) else None


Step = Literal["run", "drain", "abort"]
"""Start items; await running items; cancel running items, and await them."""


class RoundInput(Contract):
    """Input of `carry_on_batch`."""

    place: BatchPlace
    options: BatchOptions
    state: BatchState
    step: Step = "run"
    horizon: int = Field(description="Attempts of this round start only positions before this one.")
    item_limit_usd: Decimal | None = Field(default=None, description="Cost limit of an item that starts now, if any.")
    until: datetime | None = Field(default=None, description="End of the batch's time.")
    looks_back: bool = Field(
        default=False, description="Whether an attempt of the round before may have started items up to `horizon`."
    )


class LegInput(Contract):
    """Input of `prepare_batch_leg`: which items run again."""

    place: BatchPlace
    state: BatchState
    kind: Literal["retry", "resume"]
    categories: tuple[ErrorCategory, ...] = Field(default=(), description="For `retry`: only these; empty for all.")


class CloseInput(Contract):
    """Input of `close_batch`."""

    place: BatchPlace
    state: BatchState


class ItemOutcome(Contract):
    """The outcome of an item's task."""

    status: ItemStatus
    error: ErrorEnvelope | None = None
    text: str = ""
    structured: dict[str, JsonValue] | None = None
    locator: str | None = None
    run_id: str | None = None
    dataset_id: str | None = None
    cost_usd: Decimal | None = None
    seconds: float = 0.0


class ItemRow(Contract):
    """A row of the results: one item and its outcome."""

    key: str
    index: int = Field(description="Number of the item in the given order; the first is 0.")
    status: Annotated[ItemStatus, OPEN]
    task_id: str
    attempts: int
    reused: ReusedAnswer | None = Field(default=None, description="Set if an identical call answered the item.")
    run_id: str | None = None
    dataset_id: str | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    rows: int | None = Field(default=None, description="Number of rows of the answer, if it has rows.")
    items: list[JsonValue] | None = Field(default=None, description="The rows, if they are few.")
    locator: str | None = Field(default=None, description="Locator of the whole answer, if it is large.")
    result: dict[str, JsonValue] | None = Field(default=None, description="The structured answer, without its rows.")
    text: str | None = Field(default=None, description="The answer as text, if it has no structured form.")
    truncated: bool = Field(default=False, description="Whether the answer is too large for a row: see the task.")
    error: ErrorEnvelope | None = None


def item_task_id(batch_id: str, key: str, attempt: int) -> str:
    """Return the id of the task of one attempt at an item: a repeated start finds the task."""
    digest = hashlib.sha256(f"{batch_id}\n{key}".encode()).hexdigest()[:24]
    return f"{batch_id}-{digest}" if attempt == 1 else f"{batch_id}-{digest}-{attempt}"


def results_series(batch_id: str) -> str:
    """Return the text that the locator of a batch's results is derived from, instead of their content."""
    return f"batch {batch_id}"


def left_usd(options: BatchOptions, state: BatchState) -> Decimal | None:
    """Return the part of the budget that is neither spent nor reserved; None without a budget."""
    if options.budget_usd is None:
        return None
    return options.budget_usd - state.cost_usd - state.reserved_usd


def item_limit(options: BatchOptions, state: BatchState, *, own_usd: Decimal | None) -> Decimal | None:
    """Return the limit for each of the next items; None if the rest is not enough for one. It is the call's own limit.
    Without one, it is a part of what is left, so that twice the window fits in, or what the dearest item so far has
    cost if that is more. Only for batches with a budget.
    """
    left = left_usd(options, state)
    if left is None or left <= 0:
        return None
    even = rounded_usd(left / (2 * options.concurrency), _EXACT)
    wanted = own_usd if own_usd is not None else max(state.highest_usd, even, _EXACT)
    return wanted if wanted <= left else None


def stop_after(rule: StopRule, counts: Counts, outcome: ItemOutcome) -> Stop | None:
    """The reason to stop now that an item has ended with `outcome`, which `counts` includes; None to continue."""
    category = outcome.error.category if outcome.error is not None and outcome.status == "failed" else None
    if category is not None and category in rule.categories:
        return StopReason.CATEGORY, f"an item failed with `{category}`, which would refuse others, too"
    if rule.failures is not None and counts.failed >= rule.failures:
        return StopReason.FAILURES, f"{counts.failed} items have failed"
    judged = counts.completed + counts.failed
    share = counts.failed / judged if judged else 0.0
    if rule.failure_share is not None and judged >= SHARE_JUDGED_FROM and share >= rule.failure_share:
        return StopReason.FAILURES, f"{share:.0%} of {judged} items have failed"
    if rule.completed is not None and counts.completed >= rule.completed:
        return StopReason.ENOUGH, f"{counts.completed} items are completed"
    if rule.rows is not None and counts.rows >= rule.rows:
        return StopReason.ENOUGH, f"the answers have {counts.rows} rows"
    return None
