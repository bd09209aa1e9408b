"""Runs: their table, execution, supervision, logs and webhooks; Standby."""
