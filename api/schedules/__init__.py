"""Schedules: calls and batches that Temporal starts at due times. Each firing is admitted when it starts."""
