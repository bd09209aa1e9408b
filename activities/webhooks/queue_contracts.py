"""Contracts of the queue of a caller's events that wait for a receiver.

A delivery whose receiver fails, or cannot take more now, is added to the queue of its caller and then waits for a
signal. The queue attempts waiting deliveries in order, and stops attempting them while their receiver is failing.
"""

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field

from outlast.activities.contracts import Contract
from outlast.activities.webhooks.contracts import DeliveryInput

QUEUE_WORKFLOW = "WebhookQueueWorkflow"
ENQUEUE_SIGNAL = "enqueue"
RECHECK_SIGNAL = "recheck"
SETTLE_SIGNAL = "settle"
"""Signal to a waiting delivery: how it ended."""
ATTEMPTED_SIGNAL = "attempted"
"""Signal to a waiting delivery: an attempt failed, and it still waits."""

QUEUE_MEMO = "outlast_webhook_queue"
"""Key of `QueueSummary` in the memo of a queue."""
DELIVERY_WAIT_MEMO = "outlast_webhook_delivery_wait"
"""Key of `DeliveryWait` in the memo of a delivery that waits."""

MAX_SUMMARISED_RECEIVERS = 50
"""Receivers that a queue's memo names; the ones with the most waiting deliveries."""


class AttemptInput(Contract):
    """Input of the activity that attempts a delivery before it waits."""

    delivery: DeliveryInput
    since: datetime = Field(description="Start of the delivery's workflow: the time to give up counts from it.")


class Attempted(Contract):
    """Result of that activity: the event was posted, or dropped with its webhook, or it waits in the queue."""

    outcome: Literal["delivered", "dropped", "queued"]
    status: int | None = None
    attempts: int = 1
    message: str | None = Field(default=None, description="Why it waits.")
    receiver: str | None = Field(default=None, description="The receiver in whose queue it waits.")
    attempt_again_seconds: float = Field(
        default=0, description="How long to wait for the queue, before it counts as lost and the event is tried again."
    )


class Failure(Contract):
    """An attempt that failed, after which the event is sent again."""

    message: str
    retry_after_seconds: float | None = Field(default=None, description="The pause that the receiver asked for.")

    @property
    def retry_after(self) -> timedelta | None:
        """The pause that the receiver asked for."""
        return None if self.retry_after_seconds is None else timedelta(seconds=self.retry_after_seconds)


class EnqueueInput(Contract):
    """A delivery that has to wait. One that waits already is not added twice."""

    receiver: str = Field(
        description="Id of the subscription, or a digest of the host of an address that a call named."
    )
    delivery_id: str
    event_at: datetime = Field(description="Waiting events are delivered in this order.")
    since: datetime
    now: datetime = Field(description="The time at the sender. Queues read no other clock.")
    failure: Failure | None = Field(default=None, description="The attempt before; None when there was none.")
    is_behind: bool = Field(default=False, description="It was not attempted because other events wait already.")
    is_test: bool = False
    most_waiting: int
    most_tests: int
    first_pause_seconds: float
    give_up_seconds: float


class EnqueuedTogether(Contract):
    """Input of the signal `enqueue`: what one worker adds together."""

    entries: tuple[EnqueueInput, ...]


class RecheckInput(Contract):
    """Input of the signal `recheck`: the webhook was changed, so its receiver is tried at once."""

    receiver: str
    now: datetime


class Settled(Contract):
    """How a waiting delivery ended."""

    outcome: Literal["delivered", "dropped", "undelivered"]
    status: int | None = None
    message: str | None = None
    attempts: int = 1
    is_gone: bool = Field(default=False, description="The receiver answered 410: it wants no more events.")


class DeliveryWait(Contract):
    """Memo of a waiting delivery."""

    receiver: str
    attempts: int
    message: str | None = None


class RoundInput(Contract):
    """Input of the activity that attempts, or settles, the next deliveries to one receiver."""

    caller_id: str
    receiver: str
    attempts: tuple["QueuedAttempt", ...] = Field(default=(), description="In the order of their events.")
    width: int = Field(default=1, description="Attempts at the same time.")
    stops_after_failures: int = 1
    stops_after_success: bool = Field(default=False, description="The receiver was failing: this is a probe.")
    settles: tuple[str, ...] = Field(default=(), description="Deliveries that end now, without an attempt.")
    settled: Settled | None = None


class QueuedAttempt(Contract):
    """A waiting delivery, and the number of attempts before."""

    delivery_id: str
    attempts: int = 0


class RoundAttempt(Contract):
    """How one attempt of a round ended. One that `ended` needs no further attempt, and says nothing of the receiver."""

    delivery_id: str
    outcome: Literal["delivered", "ended", "failed"]
    failure: Failure | None = None


class RoundResult(Contract):
    """Result of a round, in the order of the attempts. Those that it did not get to are missing."""

    attempts: tuple[RoundAttempt, ...] = ()
    now: datetime
    closed: Settled | None = Field(
        default=None, description="The webhook was removed or is switched off: how every delivery to it ends."
    )


class ReceiverSummary(Contract):
    """A receiver for which events wait."""

    receiver: str
    waiting: int
    holds: bool = Field(description="Whether new events wait as well, behind these.")
    failing_since: datetime | None = None
    next_attempt_at: datetime | None = None
    message: str | None = Field(default=None, description="What went wrong with the latest attempt.")


class QueueSummary(Contract):
    """Memo of a queue. Counts may be a few percent old."""

    waiting: int = 0
    tests: int = 0
    receivers: tuple[ReceiverSummary, ...] = ()

    def of(self, receiver: str) -> ReceiverSummary | None:
        """The summary of one receiver."""
        return next((one for one in self.receivers if one.receiver == receiver), None)

    def is_failing(self, receiver: str) -> bool:
        """Whether the latest attempt of a receiver for which events wait has failed."""
        known = self.of(receiver)
        return known is not None and known.failing_since is not None


def most_waiting_for(most: int, *, is_failing: bool) -> int:
    """How many events of a caller may wait when another one is added, where the policy allows `most`.

    A further tenth is for receivers that take events: one that fails, and has used up the limit, costs them nothing.
    """
    return most if is_failing else most + -(-most // 10)


def queue_id(caller_id: str) -> str:
    """ID of the workflow that holds a caller's waiting deliveries."""
    return f"webhook-queue:{caller_id}"


RoundInput.model_rebuild()
