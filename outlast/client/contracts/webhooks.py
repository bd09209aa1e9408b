"""Webhooks, and the deliveries of events to them."""

from datetime import datetime

from outlast.client.contracts.base import Response


class WebhookBacklog(Response):
    """Events that wait for a webhook whose receiver fails, or cannot take them as fast as they happen."""

    events: int
    """How many, to within a few percent."""
    failing_since: datetime | None = None
    """None while the receiver takes events."""
    next_attempt_at: datetime | None = None
    message: str | None = None
    """What went wrong with the latest attempt."""


class Webhook(Response):
    """An address that hears of what your tasks and batches do."""

    id: str
    url: str
    name: str | None = None
    events: tuple[str, ...]
    """What it hears of, such as `task.completed`."""
    batch_items: bool = False
    """Whether it hears of tasks that are items of batches."""
    enabled: bool
    disabled_reason: str | None = None
    created_at: datetime
    updated_at: datetime
    old_secret_until: datetime | None = None
    """Until when a secret that was rotated out signs as well."""
    damaged: str | None = None
    """Why events cannot be sent to it, and what to do; `url` may be empty then."""
    backlog: WebhookBacklog | None = None
    """None while no event waits."""
    secret: str | None = None
    """What signs events; only where it was just made."""


class WebhookList(Response):
    """Your webhooks."""

    webhooks: tuple[Webhook, ...]


class Delivery(Response):
    """One event for one webhook."""

    id: str
    webhook_id: str | None = None
    event_id: str
    type: str
    subject: str | None = None
    """Id of the task or batch."""
    status: str
    """`delivering`, `delivered`, `undelivered`, or `dropped` when the webhook was removed."""
    message: str | None = None
    """What went wrong with the latest attempt, or why it waits."""
    attempts: int | None = None
    next_attempt_at: datetime | None = None
    created_at: datetime
    finished_at: datetime | None = None


class DeliveryPage(Response):
    """One page of deliveries."""

    deliveries: tuple[Delivery, ...]
    next_page_token: str | None = None


class Replayed(Response):
    """How many events are being sent again, and whether there are more."""

    replayed: int
    more: bool = False
