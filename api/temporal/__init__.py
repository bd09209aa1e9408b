"""Readers of Temporal: events from histories, and views of tasks, turns, sessions, batches and schedules."""
