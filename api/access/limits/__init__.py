"""Limits of callers and of client addresses."""
