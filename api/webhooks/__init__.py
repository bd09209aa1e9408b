"""Webhooks: subscriptions of callers, deliveries, and the webhooks that are notified of a call."""
