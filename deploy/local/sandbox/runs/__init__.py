"""Runs of the sandbox platform: processes, logs, limits, webhooks."""
