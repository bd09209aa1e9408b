"""Readers of Temporal's histories and visibility: events and views of tasks, turns and sessions."""
