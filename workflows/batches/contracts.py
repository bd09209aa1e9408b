"""Contracts of the workflow of a batch: its input, its result, and its memo."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from pydantic import Field

from outlast.activities.batches.contracts import BatchOptions, BatchPlace, BatchState, Counts, StopReason
from outlast.activities.contracts import Contract, ErrorCategory
from outlast.activities.webhooks.contracts import WebhookListener


class BatchStatus(StrEnum):
    """State of a batch. All but `working` are final until it is resumed, or its failed items are retried."""

    WORKING = "working"
    COMPLETED = "completed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


WANTED_STOPS = frozenset({StopReason.ENOUGH, StopReason.TIME})
"""Reasons by which a batch has what its caller asked for, although it stopped before its last item."""


class LegRequest(Contract):
    """Items to run again in a batch that had ended."""

    kind: Literal["retry", "resume"]
    categories: tuple[ErrorCategory, ...] = ()


class BatchInput(Contract):
    """Input of the workflow."""

    place: BatchPlace
    options: BatchOptions
    state: BatchState
    leg: LegRequest | None = Field(default=None, description="The work to prepare before the first start.")
    began: datetime | None = Field(default=None, description="Start time of the first run of this leg.")
    cancelled: bool = False
    lost_horizon: int | None = Field(
        default=None,
        description="For a batch that was stuck: the last position at which its last round may have started items.",
    )
    listeners: tuple[WebhookListener, ...] = Field(default=(), description="Webhooks that receive its events.")


class BatchOutcome(Contract):
    """Result of the workflow."""

    status: BatchStatus
    state: BatchState


BATCH_STOPPED = "BatchStopped"
"""Type of the failure of a stopped batch, see `workflows.contracts.failed_tasks`."""


class BatchSummary(Contract):
    """The part of the memo that is written at the start, so that a batch is readable while no worker is alive."""

    tool: str
    mode: str
    executor: Literal["none", "sync", "async"]
    actor: str | None = None
    name: str | None = None
    total: int
    options: BatchOptions
    created_at: datetime
    fingerprint: str = Field(description="Digest of the request, to detect repeated requests.")


class BatchProgress(Contract):
    """The part of the memo that each round updates."""

    counts: Counts
    cost_usd: Decimal
    under_way: int
    stop: StopReason | None = None
    stop_words: str | None = None
    waits_because: str | None = None

    @classmethod
    def nothing(cls) -> "BatchProgress":
        """The progress of a batch that has not begun."""
        return cls(counts=Counts(), cost_usd=Decimal(0), under_way=0)

    @classmethod
    def of(cls, state: BatchState) -> "BatchProgress":
        """The progress that a state shows."""
        return cls(
            counts=state.counts,
            cost_usd=state.cost_usd,
            under_way=len(state.under_way),
            stop=state.stop,
            stop_words=state.stop_words,
            waits_because=state.waits_because,
        )
