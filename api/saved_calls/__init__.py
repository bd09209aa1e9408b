"""Saved calls: a tool and its input under a name, for people and schedules."""
