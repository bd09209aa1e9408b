"""Contracts of webhooks: subscriptions, events, and the delivery of one event to one webhook. Addresses and secrets are
encrypted: the address of a webhook is often enough to post to it.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field

from outlast.activities.contracts import Contract, ErrorEnvelope, JsonObject, SealedSecret

SUBSCRIPTIONS_WORKFLOW = "WebhookSubscriptionsWorkflow"
DELIVERY_WORKFLOW = "WebhookDeliveryWorkflow"
CREATE_UPDATE = "create"
EDIT_UPDATE = "edit"
ROTATE_UPDATE = "rotate"
REMOVE_UPDATE = "remove"
DISABLE_SIGNAL = "disable"
GONE, UNDELIVERED = "WebhookGone", "WebhookUndelivered"
"""Types of the failures that end a delivery."""

SUBSCRIPTIONS_MEMO = "outlast_webhook_subscriptions"
"""Key of `SubscriptionsState` in the memo of the workflow that keeps them."""
DELIVERY_MEMO = "outlast_webhook_delivery"
"""Key of `DeliverySummary` in the memo of a delivery, set at its start."""
DELIVERY_END_MEMO = "outlast_webhook_delivery_end"
"""Key of `DeliveryEnd` in the memo of a delivery that ended otherwise than delivered."""

SECRET_PREFIX = "whsec_"  # noqa: S105 (what every secret begins with)
MAX_SECRETS = 5
"""Signatures of one request at most: that of the secret, and those of the latest ones before it."""
MAX_OWN_WEBHOOKS = 4
"""Webhooks that one call or batch names itself."""
MAX_EVENT_BYTES = 16_384
"""Largest body of a request; an error is shortened to fit."""
MAX_WAITING, MAX_WAITING_TESTS = 10_000, 20
"""Events, and tests among them, that wait for the receivers of a caller, where the policy sets no other limits."""

TEST_EVENT_PREFIX = "evt_test_"
"""Beginning of the ids of `webhook.test` events, by which those on their way are counted."""

_SUBSCRIPTIONS_PREFIX = "webhooks:"
_DELIVERY_PREFIX = "webhook-delivery:"


class WebhookEventType(StrEnum):
    """The type of an event. The values are part of the public contract."""

    TASK_COMPLETED = "task.completed"
    TASK_FAILED = "task.failed"
    TASK_CANCELLED = "task.cancelled"
    TASK_INPUT_REQUIRED = "task.input_required"
    TASK_BUDGET_NEAR = "task.budget_near"
    BATCH_PROGRESS = "batch.progress"
    BATCH_COMPLETED = "batch.completed"
    WEBHOOK_TEST = "webhook.test"

    @property
    def is_of_batch(self) -> bool:
        """True if the event is about a batch."""
        return self.value.startswith("batch.")


ENDS = frozenset({"task.completed", "task.failed", "task.cancelled", "batch.completed"})
"""Events whose subject has ended."""


class WebhookSecret(Contract):
    """A secret that signs."""

    sealed: SealedSecret
    until: datetime | None = Field(default=None, description="For one that was rotated out: when it signs no more.")


class WebhookEndpoint(Contract):
    """The address for events, and the secrets that sign them."""

    url: SealedSecret
    secrets: tuple[WebhookSecret, ...] = Field(description="The newest first.")

    def rotated(self, new: SealedSecret, *, old_until: datetime) -> "WebhookEndpoint":
        """With a new secret; the one before signs as well until `old_until`."""
        before = tuple(one.model_copy(update={"until": one.until or old_until}) for one in self.secrets)
        return self.model_copy(update={"secrets": (WebhookSecret(sealed=new), *before)[:MAX_SECRETS]})

    def secrets_at(self, now: datetime) -> tuple[WebhookSecret, ...]:
        """Those that sign at `now`."""
        return tuple(one for one in self.secrets if one.until is None or one.until > now)


class WebhookSubscription(Contract):
    """A webhook that receives the events of all calls of a caller."""

    id: str
    name: str | None = None
    events: tuple[WebhookEventType, ...] = Field(description="Types of the events that it receives.")
    batch_items: bool = Field(default=False, description="Whether it receives events of batch items.")
    endpoint: WebhookEndpoint
    enabled: bool = True
    disabled_reason: str | None = Field(default=None, description="Why it was disabled automatically.")
    created_at: datetime
    updated_at: datetime


class SubscriptionsState(Contract):
    """Input of the workflow that keeps a caller's subscriptions, and content of its memo."""

    caller_id: str
    subscriptions: tuple[WebhookSubscription, ...] = ()

    def get(self, webhook_id: str) -> WebhookSubscription | None:
        """Return the subscription with this id."""
        return next((one for one in self.subscriptions if one.id == webhook_id), None)


class CreateInput(Contract):
    """Input of the update `create`. One with the id of an existing subscription changes nothing."""

    subscription: WebhookSubscription
    most: int = Field(description="Subscriptions that the caller may have.")


class EditInput(Contract):
    """Input of the update `edit`. What is None stays."""

    webhook_id: str
    name: str | None = None
    events: tuple[WebhookEventType, ...] | None = None
    batch_items: bool | None = None
    url: SealedSecret | None = None
    enabled: bool | None = None


class RotateInput(Contract):
    """Input of the update `rotate`."""

    webhook_id: str
    secret: SealedSecret
    old_until: datetime = Field(description="Until when the secret before it signs as well.")
    read_url: SealedSecret = Field(description="The address as it was read.")
    url: SealedSecret = Field(description="The same, encrypted again: with the key that encrypts now.")


class RemoveInput(Contract):
    """Input of the update `remove`."""

    webhook_id: str


class SubscriptionAnswer(Contract):
    """Answer of every update: the subscription as it is then, or why nothing was changed."""

    subscription: WebhookSubscription | None = None
    refusal: Literal["too_many", "not_found"] | None = None


class DisableInput(Contract):
    """Input of the signal `disable`."""

    webhook_id: str
    reason: str


class WebhookListener(Contract):
    """A webhook as a call or batch carries it: with the events that it receives. A subscription is looked up when an
    event is delivered, so that its address and secrets are those of that moment.
    """

    id: str
    events: tuple[WebhookEventType, ...]
    batch_items: bool = False
    endpoint: WebhookEndpoint | None = Field(default=None, description="Of one that the call names itself.")
    most_waiting: int = Field(
        default=MAX_WAITING, description="Events of its caller that may wait for receivers (`webhook_deliveries`)."
    )
    most_tests: int = Field(default=MAX_WAITING_TESTS, description="Tests among them (`webhook_tests`).")

    @property
    def is_own(self) -> bool:
        """True if the call or batch names it itself."""
        return self.endpoint is not None


class WebhookEvent(Contract):
    """Something that happened. Its id is the same for every webhook and every attempt."""

    id: str
    type: WebhookEventType
    timestamp: datetime
    subject: str | None = Field(default=None, description="Id of the task or batch that it is about.")
    data: JsonObject

    @property
    def body(self) -> JsonObject:
        """The body of the request (Standard Webhooks, "Payload structure")."""
        return {"type": self.type.value, "timestamp": self.timestamp.isoformat(), "data": self.data}


class DeliveryInput(Contract):
    """Input of the workflow of a delivery, and of its activity."""

    caller_id: str
    listener: WebhookListener
    event: WebhookEvent
    awaits_end: bool = Field(default=False, description="Whether to wait until the subject has ended.")

    @property
    def workflow_id(self) -> str:
        """The delivery's id: an event that is sent twice has one delivery."""
        return delivery_id(self.listener.id, self.event.id)

    @property
    def summary(self) -> "DeliverySummary":
        """The content of the delivery's memo from its start."""
        return DeliverySummary(
            event_id=self.event.id,
            type=self.event.type,
            subject=self.event.subject,
            webhook_id=None if self.listener.is_own else self.listener.id,
            created_at=self.event.timestamp,
        )


class Delivered(Contract):
    """Result of a delivery. A delivery to a removed webhook is dropped."""

    outcome: Literal["delivered", "dropped"]
    status: int | None = Field(default=None, description="The HTTP status that the webhook answered.")
    attempts: int = 1


class DeliverySummary(Contract):
    """The content of a delivery's memo from its start."""

    event_id: str
    type: WebhookEventType
    subject: str | None = None
    webhook_id: str | None = Field(default=None, description="Absent for one that the call named itself.")
    created_at: datetime


class DeliveryEnd(Contract):
    """The content of the memo of a delivery that ended otherwise than delivered."""

    outcome: Literal["undelivered", "dropped"]
    message: str


class EventSubject(Contract):
    """The task that an event is about, with the fields that every event has."""

    task_id: str
    tool: str
    actor: str | None = None
    session_id: str | None = None
    batch_id: str | None = None


class BudgetWatch(Contract):
    """Recipients of the warning that a run has spent most of its budget."""

    caller_id: str
    listeners: tuple[WebhookListener, ...]
    subject: EventSubject


def subscriptions_id(caller_id: str) -> str:
    """ID of the workflow that keeps a caller's subscriptions."""
    return f"{_SUBSCRIPTIONS_PREFIX}{caller_id}"


def delivery_id(listener_id: str, event_id: str) -> str:
    """ID of the workflow that delivers an event to a webhook."""
    return f"{_DELIVERY_PREFIX}{listener_id}:{event_id}"


def deliveries_prefix(webhook_id: str) -> str:
    """Beginning of the IDs of all deliveries to a subscription."""
    return f"{_DELIVERY_PREFIX}{webhook_id}:"


def event_id(event_type: WebhookEventType, *about: str | int) -> str:
    """The id of an event: it follows from what the event is about, so that an event that is found twice has one id."""
    digest = hashlib.sha256(json.dumps([event_type.value, *about]).encode()).hexdigest()
    return f"evt_{digest[:32]}"


def listening(listeners: Iterable[WebhookListener], event_type: WebhookEventType) -> tuple[WebhookListener, ...]:
    """Return the webhooks that receive this type of event."""
    return tuple(one for one in listeners if event_type in one.events)


def task_data(subject: EventSubject, status: str, **more: object) -> JsonObject:
    """Return the data of an event of a task: ids, links, and `more` of what is known."""
    data: dict[str, object] = {
        "task_id": subject.task_id,
        "tool": subject.tool,
        "status": status,
        "actor": subject.actor,
        "session_id": subject.session_id,
        "batch_id": subject.batch_id,
        **more,
        "links": {"task": f"/v1/tasks/{subject.task_id}", "result": f"/v1/tasks/{subject.task_id}/result"},
    }
    return {name: value for name, value in data.items() if value is not None}  # type: ignore[misc]


def error_data(error: ErrorEnvelope | None) -> JsonObject | None:
    """Return an error in the form of an event: without parts that may be long."""
    if error is None:
        return None
    short = error.model_copy(
        update={"violations": error.violations[:10] if error.violations else None, "allowed_tools": None}
    )
    told = short.model_dump(mode="json", exclude_none=True)
    if len(json.dumps(told)) > MAX_EVENT_BYTES // 2:
        return short.model_copy(update={"violations": None}).model_dump(mode="json", exclude_none=True)
    return told


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

    receiver: str = Field(description="Id of the subscription, or a digest of the host of a call's own address.")
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
    """The end of a waiting delivery."""

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
    """The result of one attempt. One that `ended` needs no further attempt, and does not describe its receiver."""

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
    message: str | None = Field(default=None, description="Error of the latest attempt.")


class QueueSummary(Contract):
    """Memo of a queue. Counts may be a few percent old."""

    waiting: int = 0
    tests: int = 0
    receivers: tuple[ReceiverSummary, ...] = ()

    def of(self, receiver: str) -> ReceiverSummary | None:
        """Return the summary of one receiver."""
        return next((one for one in self.receivers if one.receiver == receiver), None)

    def is_failing(self, receiver: str) -> bool:
        """Return True if the latest attempt of a receiver with waiting events has failed."""
        known = self.of(receiver)
        return known is not None and known.failing_since is not None


def most_waiting_for(most: int, *, is_failing: bool) -> int:
    """The number of a caller's events that may wait when another one is added and the policy allows `most`. A further
    tenth is for receivers that take events: one that fails, and has used up the limit, costs them nothing.
    """
    return most if is_failing else most + -(-most // 10)


def queue_id(caller_id: str) -> str:
    """ID of the workflow that holds a caller's waiting deliveries."""
    return f"webhook-queue:{caller_id}"


RoundInput.model_rebuild()
