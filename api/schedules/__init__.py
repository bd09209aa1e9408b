"""Schedules: calls and batches that Temporal starts when they are due. Each firing is judged when it begins."""
