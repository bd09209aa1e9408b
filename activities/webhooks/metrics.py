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
