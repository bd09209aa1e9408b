"""Webhooks: events of tasks and batches, signed and posted to the addresses that callers subscribe."""
