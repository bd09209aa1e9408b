"""Webhooks: what callers subscribe, and the delivery of each event."""
