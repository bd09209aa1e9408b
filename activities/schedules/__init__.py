"""Firings of schedules: start, await and cancel their work, and pause a schedule."""
