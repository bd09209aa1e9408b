"""Contracts of the activities that start, follow, resurrect and abort runs, and rules about runs. Pure."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from outlast.activities.bounds import MAX_COUNT, PositiveCount, PositiveSeconds, Usd
from outlast.activities.contracts import OPEN, Caller, Contract, SealedSecret
from outlast.activities.spending.contracts import Basis, Spend, SpendingCaps, exact_usd
from outlast.activities.storages.contracts import DatasetPage
from outlast.activities.webhooks.contracts import BudgetWatch

FINAL_RUN_STATUSES = frozenset({"SUCCEEDED", "FAILED", "TIMED-OUT", "ABORTED"})
"""Run states after which the platform neither changes nor charges the run (Apify API v2, run object, `status`)."""

LOCAL_START_LIMIT = timedelta(seconds=6)
"""The time after which a local start is given up. Temporal's SDK prolongs a workflow task that takes 8 seconds."""
LEAST_TASK_TIMEOUT = timedelta(seconds=10)
"""A workflow task that is given to another worker sooner starts no run itself. It is Temporal's default."""


class Budget(Contract):
    """Limits of one task. An absent limit does not apply."""

    max_total_charge_usd: Usd | None = Field(default=None, description="Maximum cost of the run, in US dollars.")
    max_items: PositiveCount | None = Field(default=None, description="Maximum number of dataset items of the run.")
    max_run_seconds: PositiveSeconds | None = Field(default=None, description="Maximum duration of the run in seconds.")

    def within(self, limit_usd: Decimal | None) -> Self:
        """These limits, with this one on the cost when there is one: it is never above the budget's own."""
        return self if limit_usd is None else self.model_copy(update={"max_total_charge_usd": limit_usd})

    def at_most(self, limit_usd: Decimal | None) -> Self:
        """These limits, with the lower one of this and their own on the cost."""
        own = self.max_total_charge_usd
        return self if limit_usd is None or (own is not None and own <= limit_usd) else self.within(limit_usd)


class Until(Contract):
    """Conditions under which a run has produced enough: it is stopped gracefully as soon as it meets one of them."""

    rows: int | None = Field(default=None, ge=1, le=MAX_COUNT, description="Number of rows that it has written.")
    expression: str | None = Field(
        default=None,
        min_length=1,
        max_length=1_000,
        description="JMESPath, applied to each new row. A row matches if the result is true: not null, false or "
        "empty. A row for which it fails (a function on a value of another type) does not match.",
    )
    matches: int = Field(default=1, ge=1, le=MAX_COUNT, description="Number of rows that match the `expression`.")
    usd: Usd | None = Field(default=None, description="Its cost in US dollars.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.rows is None and self.expression is None and self.usd is None:
            raise ValueError("set `rows`, `expression` or `usd`")
        if "matches" in self.model_fields_set and self.expression is None and self.matches != 1:
            raise ValueError("`matches` counts rows that match an `expression`: set one")
        return self


class UntilMet(Contract):
    """The condition of `Until` that a run has met, with its numbers at that moment."""

    condition: Annotated[Literal["rows", "expression", "usd"], OPEN]
    rows: int | None = Field(default=None, description="Rows that it had written, at least.")
    matches: int | None = Field(default=None, description="Rows that had matched the expression.")
    usd: float | None = Field(default=None, description="Its cost at that moment.")

    @property
    def in_words(self) -> str:
        """As half a sentence: `100 rows were enough`."""
        match self.condition:
            case "rows":
                return f"{self.rows} rows were enough"
            case "expression":
                were = "rows that match were" if self.matches != 1 else "row that matches was"
                return f"{self.matches} {were} enough"
            case "usd":
                return f"it had cost {self.usd or 0.0:.4f} US dollars, as much as it was to"


class UntilProgress(Contract):
    """The progress of judging a run's rows, in the heartbeat of `wait_for_run`: another worker continues from it."""

    offset: int = 0
    matches: int = 0


class RunSpec(Contract):
    """The run to start (Apify API v2, `POST /v2/acts/:actorId/runs`, or `/v2/actor-tasks/:actorTaskId/runs`)."""

    actor: str = Field(description="Actor as `user/name`, `user~name` or id.")
    saved_task: str | None = Field(
        default=None, description="Id of a saved task of this Actor, which supplies what is not given here."
    )
    input: JsonValue = Field(
        default=None, description="The Actor's input; of a saved task the fields that take the place of saved ones."
    )
    build: str | None = None
    memory_mbytes: int | None = None
    budget: Budget = Budget()


class LocalTerms(Contract):
    """The workflow task that a local start belongs to. No history holds it: the values
    may differ when the workflow is replayed.
    """

    task_began: datetime = Field(description="Start of the workflow task, by the server's clock.")
    is_first_step: bool = Field(default=True, description="Whether this is the first step of the workflow.")
    is_repeated: bool = Field(
        default=False, description="Whether the workflow task may have begun before: that attempt may have started it."
    )

    @property
    def may_send(self) -> bool:
        """The attempt may start the run; otherwise a normal activity does."""
        return self.is_first_step and not self.is_repeated


class StartRunInput(Contract):
    """Input of `start_run`: starts one paid run, at most once for `operation_id`, whatever fails."""

    local_limit: ClassVar[timedelta] = LOCAL_START_LIMIT
    """The time limit of a local attempt, see `activities.local_reads`."""

    caller: Caller
    spec: RunSpec
    payment: SealedSecret | None = Field(default=None, description="Token that pays for the run, not the account.")
    operation_id: str = Field(description="Marks the run on the platform, so that a retry finds it.")
    spend: Spend | None = Field(default=None, description="Entry in the caller's ledger.")
    caps: SpendingCaps | None = Field(default=None, description="None: nothing is reserved.")
    task_spent_usd: Decimal = Field(default=Decimal(0), description="Cost of earlier runs of the task.")
    local: LocalTerms | None = Field(default=None, description="Set for a local attempt only.")
    may_have_begun_since: datetime | None = Field(
        default=None, description="Set when a local attempt may have started the run, without a record of it."
    )

    @property
    def may_have_acted(self) -> bool:
        """An attempt before this local one may have started the run, see `activities.local_reads`."""
        return self.local is not None and self.local.is_repeated


MAX_RESURRECTIONS = 10
"""The maximum number of resurrections of a run without an explicit request."""


class Resurrection(Contract):
    """Permission to resurrect a run that was cut short: it continues with its storages, and no new run is paid for."""

    max_times: int = Field(
        ge=0,
        le=MAX_RESURRECTIONS,
        description="Maximum number of resurrections of one run; 0: never, even if the operator's policy allows it.",
    )


class Production(Contract):
    """The output of a run, as far as its storages show it."""

    rows: int = Field(default=0, description="Rows of its dataset.")
    requests: int = Field(default=0, description="Requests of its queue that it has handled.")
    records: int = Field(default=0, description="Records of its key-value store, without its input.")

    def is_more_than(self, before: "Production") -> bool:
        """Return True if anything was added."""
        return self.rows > before.rows or self.requests > before.requests or self.records > before.records


class RunRef(Contract):
    """Input of `get_run`: a run that the caller can see."""

    caller: Caller
    run_id: str


class WaitRunInput(RunRef):
    """Input of `wait_for_run`: follows a run to its end, or to the end of its budget."""

    budget: Budget = Budget()
    rows_within_bytes: int | None = Field(
        default=None, description="Return the run's rows too, when all of them fit into this size in bytes."
    )
    spend: Spend | None = Field(default=None, description="Entry to settle when the run has ended.")
    resurrection: Resurrection | None = Field(
        default=None,
        description="A run that may be resurrected is not settled, and its rows are not read: the workflow calls "
        "`resurrect_run`, which decides.",
    )
    ended_before: datetime | None = Field(default=None, description="Previous end: a state with this end is old.")
    until: Until | None = Field(
        default=None, description="Condition under which the run has produced enough and is stopped."
    )
    watch: BudgetWatch | None = Field(default=None, description="Recipients of the warning about the budget.")


class AbortRunInput(Contract):
    """Input of `abort_run`: makes sure that no run of an operation keeps running. With `run_id`, that run is aborted.
    Without it, the activity looks for the runs of `actor` that are marked with `operation_id`, since the response of
    the start may have been lost.
    """

    caller: Caller
    run_id: str | None = None
    actor: str | None = None
    operation_id: str | None = None
    since: datetime | None = Field(default=None, description="Start of the operation; its runs started later.")
    may_start_late: bool = Field(
        default=False, description="Whether a worker that lost its workflow task may have sent the start only now."
    )
    gracefully: bool = False
    spend: Spend | None = Field(default=None, description="Entry to settle, or to release if no run was started.")
    ended_before: datetime | None = Field(
        default=None,
        description="Time of its previous end: a later resurrection may show late.",
    )


class RunState(Contract):
    """The state of a run at one moment, as the platform reports it."""

    run_id: str
    actor_id: str
    actor_name: str | None = None
    status: str
    status_message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    dataset_id: str
    key_value_store_id: str
    build_number: str | None = None
    exit_code: int | None = None
    usage_total_usd: float | None = None
    stats: dict[str, JsonValue] = Field(default_factory=dict)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    console_url: str | None = None
    adopted: bool = Field(default=False, description="True if a retry found the run of an earlier attempt.")
    limit_usd: Decimal | None = Field(
        default=None,
        description="Its maximum cost: the call's budget, or the amount reserved from the caller's spending limits at "
        "its start.",
    )
    limit_basis: Annotated[Basis, OPEN] | None = Field(
        default=None,
        description="Its origin: the `call`, the `actor`'s own maximum, the cost of earlier runs of the caller "
        "(`history`), or what the spending limits left (`caps`).",
    )
    over_budget: Annotated[Literal["money", "time"], OPEN] | None = Field(
        default=None, description="Which limit of the budget the run has exceeded while still running."
    )
    until_met: UntilMet | None = Field(
        default=None, description="Why the run was stopped, when it had produced enough (`options.until`)."
    )

    @property
    def is_final(self) -> bool:
        """True if the run has ended."""
        return self.status in FINAL_RUN_STATUSES

    @property
    def resurrections(self) -> int:
        """The number of times the run was resurrected."""
        count = self.stats.get("resurrectCount")
        return count if isinstance(count, int) else 0

    def exceeding(self, limit: Literal["money", "time"]) -> Self:
        """This state, marked as over this limit of the budget."""
        return self.model_copy(update={"over_budget": limit})


class ResurrectRunInput(RunRef):
    """Input of `resurrect_run`: starts a run again that has ended as `ended`, at most once, whatever fails."""

    ended: RunState = Field(description="The run as it had ended.")
    budget: Budget = Field(default=Budget(), description="Limits of the run; the cost counts from its first start.")
    build: str | None = None
    memory_mbytes: int | None = None
    produced_before: Production = Field(
        default=Production(), description="Its output at the previous resurrection, which it must exceed now."
    )
    is_forced: bool = Field(default=False, description="Resurrect it whatever it has produced.")
    spend: Spend | None = Field(default=None, description="Entry to settle if it is not resurrected.")
    caps: SpendingCaps | None = Field(
        default=None, description="Set if the run was settled: its further cost is reserved."
    )


class ResurrectResult(Contract):
    """The result of a resurrection."""

    run: RunState
    is_resurrected: bool = True
    reason: str | None = Field(default=None, description="Why it was not resurrected.")
    produced: Production = Production()


class AbortResult(Contract):
    """Runs that were aborted or had already ended; empty when none was started."""

    runs: tuple[RunState, ...] = ()


DEFAULT_LOG_BYTES = 32_768


class RunLogInput(RunRef):
    """Input of `fetch_run_log`: the last lines of a run's log."""

    lines: int = 50
    max_bytes: int = DEFAULT_LOG_BYTES


class RunLog(Contract):
    """The last lines of a run's log."""

    run_id: str
    text: str
    lines: int
    total_lines: int


class EndedRun(RunState):
    """A run that has ended, with its rows where the input asked for them and they could be read. When the rows do not
    fit, `rows` holds their number and no items.
    """

    rows: DatasetPage | None = None
    read_seconds: float = Field(default=0.0, description="How long reading the rows took.")


def operation_id(*, namespace: str, workflow_id: str, first_run_id: str, number: int) -> str:
    """Return the id of a task's start with this number, counted from 1: equal in every replay and every process.
    `first_run_id` is the workflow's first execution, which a reset keeps.
    """
    return hashlib.sha256(f"{namespace}/{workflow_id}/{first_run_id}/{number}".encode()).hexdigest()[:32]


def may_be_resurrected(run: RunState, allowed: Resurrection | None, budget: Budget) -> bool:
    """Return True if a call may resurrect its ended run: it is allowed, the run was cut short, and money is left."""
    if allowed is None or run.resurrections >= allowed.max_times:
        return False
    return is_cut_short(run) and has_money_left(run, budget)


def is_cut_short(run: RunState) -> bool:
    """Return True if the run neither finished nor was stopped: its time was over, or it died with the
    platform. An Actor that fails, also for want of memory, leaves an exit code; one whose server was lost leaves none.
    """
    if run.until_met is not None:
        return False  # It had produced enough, however it ended after that.
    return run.status == "TIMED-OUT" or (run.status == "FAILED" and run.exit_code is None)


def has_money_left(run: RunState, budget: Budget) -> bool:
    """Return True if the run has cost less than its limit. The cost counts from its first start."""
    limit = budget.max_total_charge_usd
    return limit is None or cost_of(run) < limit


def is_another_life(now: RunState, ended: RunState) -> bool:
    """Return True if the run was resurrected after this end. A replica's reply may be older than that."""
    if now.resurrections != ended.resurrections:
        return now.resurrections > ended.resurrections
    return now.is_final and now.finished_at != ended.finished_at


def why_unproductive(now: Production, before: Production, ended: RunState) -> str | None:
    """Return the reason why a run with this production is not resurrected; None if it may be."""
    if now.is_more_than(before):
        return None
    since = "since it was resurrected" if ended.resurrections else "in all its time"
    return f"it produced nothing {since} that it could continue from"


def cost_of(run: RunState) -> Decimal:
    """Return the cost of the run since its first start, in US dollars."""
    return exact_usd(run.usage_total_usd or 0.0)


_LONGEST_TASK = timedelta(days=31)
"""A task that was open at the backup has ended after this time: a deadline is at most 30 days away."""


@dataclass(frozen=True, slots=True)
class RestoredInterval:
    """The time from the backup until the restored system began its work, in which another system continued."""

    began: datetime
    ended: datetime

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `FROM/UNTIL`, both ISO 8601 with an offset. Raises `ValueError`."""
        began, separator, ended = (part.strip() for part in text.partition("/"))
        if not separator:
            raise ValueError("takes FROM/UNTIL, both in ISO 8601")
        interval = cls(datetime.fromisoformat(began), datetime.fromisoformat(ended))
        if interval.began.tzinfo is None or interval.ended.tzinfo is None:
            raise ValueError("takes times with an offset, such as 2026-11-22T10:00:00Z")
        if interval.ended < interval.began:
            raise ValueError("takes FROM/UNTIL; UNTIL is the later one")
        return interval

    def matters_at(self, moment: datetime) -> bool:
        """Return True if a task that was open at the backup may still be open."""
        return moment < self.ended + _LONGEST_TASK
