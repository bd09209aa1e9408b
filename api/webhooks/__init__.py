"""Webhooks: subscriptions of callers, what was not delivered, and which webhooks hear of a call."""
