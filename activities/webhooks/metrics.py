"""Metrics of webhooks, exported with the worker's Temporal metrics."""

from temporalio import activity

from outlast.activities.webhooks.contracts import WebhookEventType
from outlast.activities.webhooks.posting import PostOutcome


def count_attempt(event_type: WebhookEventType, outcome: PostOutcome) -> None:
    """Count one attempt to deliver an event."""
    counter = activity.metric_meter().create_counter(
        "outlast_webhook_attempts", "Attempts to deliver events to webhooks, by outcome."
    )
    counter.add(1, {"type": event_type.value, "outcome": outcome.value})


def count_queued(reason: str) -> None:
    """Count an event that waits because its receiver `failed`, is `busy` or others wait (`behind`), or is `refused`."""
    counter = activity.metric_meter().create_counter(
        "outlast_webhook_queued", "Events that wait in a queue for their receiver, by the reason."
    )
    counter.add(1, {"reason": reason})
