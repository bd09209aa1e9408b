"""Histories and lists of Temporal, read as events and views of tasks, turns and sessions."""
