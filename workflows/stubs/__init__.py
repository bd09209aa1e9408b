"""Stubs for handlers: one per room of the activities."""
