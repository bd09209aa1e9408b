"""Contracts of the activities that start, follow and abort runs."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import Field, JsonValue

from outlast.activities.contracts import Caller, Contract, SealedSecret
from outlast.activities.storages.contracts import DatasetPage

FINAL_RUN_STATUSES = frozenset({"SUCCEEDED", "FAILED", "TIMED-OUT", "ABORTED"})
"""Run states after which the platform neither changes nor charges the run (Apify API v2, run object, `status`)."""


class Budget(Contract):
    """What one task may cost at most. An absent limit does not limit."""

    max_total_charge_usd: Decimal | None = Field(
        default=None, gt=0, description="Money the run may cost, in US dollars."
    )
    max_items: int | None = Field(default=None, gt=0, description="Dataset items the run may produce.")
    max_run_seconds: int | None = Field(default=None, gt=0, description="Time the run may take, in seconds.")


class RunSpec(Contract):
    """A run to be started (Apify API v2, `POST /v2/acts/:actorId/runs`)."""

    actor: str = Field(description="Actor as `user/name`, `user~name` or id.")
    input: JsonValue = None
    build: str | None = None
    memory_mbytes: int | None = None
    budget: Budget = Budget()


class StartRunInput(Contract):
    """Order to start one paid run, at most once for `operation_id`, whatever fails."""

    caller: Caller
    spec: RunSpec
    payment: SealedSecret | None = Field(default=None, description="What pays for the run instead of the account.")
    operation_id: str = Field(description="Marks the run on the platform, so that a lost start is recognised.")


class RunRef(Contract):
    """Points at a run on behalf of a caller."""

    caller: Caller
    run_id: str


class WaitRunInput(RunRef):
    """Order to follow a run to its end, or to the end of its budget."""

    budget: Budget = Budget()
    rows_within_bytes: int | None = Field(
        default=None, description="Bring the run's rows along when all of them fit into this size."
    )


class AbortRunInput(Contract):
    """Order to leave no run of an operation running.

    With `run_id` that run is aborted. Without, the runs marked with `operation_id` are looked for on `actor`, since
    the start's answer may have been lost.
    """

    caller: Caller
    run_id: str | None = None
    actor: str | None = None
    operation_id: str | None = None
    since: datetime | None = Field(default=None, description="When the operation began; its runs are younger.")
    gracefully: bool = False


class RunState(Contract):
    """A run as the platform described it at one moment."""

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
    console_url: str | None = None
    adopted: bool = Field(default=False, description="True when a lost start was recognised instead of repeated.")
    over_budget: Literal["money", "time"] | None = Field(
        default=None, description="Which limit of the budget the run has reached while still running."
    )

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.status in FINAL_RUN_STATUSES


class AbortResult(Contract):
    """Runs that were aborted or found already ended; empty when none had been started."""

    runs: tuple[RunState, ...] = ()


class RunLogInput(RunRef):
    """Order for the last lines of a run's log."""

    lines: int = 50
    max_bytes: int = 32_768


class RunLog(Contract):
    """The tail of a run's log."""

    run_id: str
    text: str
    lines: int
    total_lines: int


class EndedRun(RunState):
    """A run that was followed to its end, and what it left behind, where that was asked for and could be read.

    `rows` has no items when they do not fit, but how many there are.
    """

    rows: DatasetPage | None = None
