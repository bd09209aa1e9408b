"""Webhooks, at every entry point."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from outlast.activities.webhooks.contracts import WebhookEventType
from outlast.contracts.base import Open, Response, absent
from outlast.workflows.contracts.tool_calls import Address, SigningSecret
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly

MAX_GRACE_SECONDS = 30 * 24 * 3600
DEFAULT_GRACE_SECONDS = 24 * 3600
MAX_REPLAYED = 500
"""Deliveries that one request sends again at most."""

DeliveryStatus = Literal["delivering", "delivered", "undelivered", "dropped"]
ListedStatus = Literal["delivering", "delivered", "undelivered"]

_WEBHOOK_ID = "^webhook-[0-9a-f]{24}$"


class WebhookRequest(KnownFieldsOnly):
    """A webhook to create."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"url": "https://example.com/hooks", "events": ["task.completed"]}]},
    )

    url: Address = Field(description="Where events are posted: the address of a public web server.")
    name: str | None = Field(default=None, max_length=200, description="For people; any text.")
    events: tuple[WebhookEventType, ...] = Field(
        default=(), max_length=len(WebhookEventType), description="Types of events to send. Default: all."
    )
    batch_items: bool = Field(
        default=False,
        description="Whether it receives events of tasks that are items of batches, which can be very many.",
    )
    secret: SigningSecret | None = Field(
        default=None,
        description="Key that signs events, `whsec_` and base64. Default: a new one, which the response contains.",
    )


class WebhookChanges(KnownFieldsOnly):
    """Changes to a webhook. Absent fields stay the same."""

    model_config = ConfigDict(extra="forbid")

    url: Address | None = None
    name: str | None = Field(default=None, max_length=200)
    events: tuple[WebhookEventType, ...] | None = Field(
        default=None, max_length=len(WebhookEventType), description="Replaces the earlier types; empty for all."
    )
    batch_items: bool | None = None
    enabled: bool | None = Field(default=None, description="If false, it receives no events until it is enabled again.")


class RotationRequest(KnownFieldsOnly):
    """A new secret for a webhook."""

    model_config = ConfigDict(extra="forbid")

    grace_seconds: int = Field(
        default=DEFAULT_GRACE_SECONDS,
        ge=0,
        le=MAX_GRACE_SECONDS,
        description="How long the old secret also signs. Default: a day; 0 ends it at once.",
    )
    secret: SigningSecret | None = Field(default=None, description="The new secret; by default a random one.")


class WebhookBacklog(Response):
    """Events that wait because a webhook's receiver fails or is too slow."""

    events: int = Field(description="Number of events, accurate to a few percent.")
    failing_since: datetime | None = Field(
        default=None, description="Time of the first failure; absent while the receiver accepts events."
    )
    next_attempt_at: datetime | None = Field(default=None, description="Time of the next attempt.")
    message: str | None = Field(default=None, description="Error of the latest attempt.")


class Webhook(Response):
    """A webhook: a receiver of events of its caller's tasks and batches."""

    id: str
    url: str
    name: str | None = None
    damaged: str | None = Field(
        default=None,
        description="Why events cannot be sent to it, and what to do; its `url` may then be empty. Absent otherwise.",
    )
    events: tuple[Open[WebhookEventType], ...] = Field(description="Types of events that it receives.")
    batch_items: bool = False
    enabled: bool
    disabled_reason: str | None = Field(default=None, description="Why it was disabled automatically.")
    created_at: datetime
    updated_at: datetime
    old_secret_until: datetime | None = Field(
        default=None, description="Time until which the previous secret also signs."
    )
    backlog: WebhookBacklog | None = Field(default=None, description="Absent if no event waits.")
    secret: str | None = Field(default=None, description="Only in the response to the request that created it.")


class WebhookList(Response):
    """The caller's webhooks, the oldest first."""

    webhooks: tuple[Webhook, ...]


class Delivery(Response):
    """One event for one webhook."""

    id: str
    caller: str | None = Field(default=None, description="Id of the caller whose event it is.")
    webhook_id: str | None = Field(default=None, description="Absent if the call or batch named the webhook itself.")
    event_id: str = Field(description="The header `webhook-id`: the same for every attempt, and for replays.")
    type: Open[WebhookEventType]
    subject: str | None = Field(default=None, description="Id of the task or batch.")
    status: Open[DeliveryStatus]
    message: str | None = Field(default=None, description="Error of the latest attempt, or why the event waits.")
    attempts: int | None = Field(
        default=None,
        description="Attempts so far. For an event that is being delivered, only in the response for this delivery.",
    )
    next_attempt_at: datetime | None = Field(
        default=None, description="Time of the next attempt; that of the receiver, while events wait for it to recover."
    )
    created_at: datetime
    finished_at: datetime | None = None


class DeliveryPage(Response):
    """Deliveries: running ones first, then the latest that ended."""

    deliveries: tuple[Delivery, ...]
    next_page_token: str | None = Field(
        default=None, description="Pass as page_token for the next page; absent on the last."
    )


class DeliveryListing(BaseModel):
    """Filter of a list of deliveries."""

    status: ListedStatus = Field(default="undelivered", description="`undelivered` by default.")
    webhook_id: str | None = Field(default=None, pattern=_WEBHOOK_ID, description="Only those of this webhook.")
    page_size: int = Field(default=50, ge=1, le=200, description="Deliveries per page.")
    page_token: str | None = Field(default=None, max_length=4096, description="`next_page_token` of the previous page.")


class ReplayRequest(KnownFieldsOnly):
    """Undelivered events to send again: all, or those of one webhook."""

    model_config = ConfigDict(extra="forbid")

    webhook_id: str | None = Field(default=None, pattern=_WEBHOOK_ID)


class Replayed(Response):
    """Number of events that are being sent again."""

    replayed: int
    more: Annotated[bool, absent(False)] = Field(
        description=f"Whether there are more: one request sends {MAX_REPLAYED} at most."
    )
