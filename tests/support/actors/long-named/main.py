"""Ends at once."""
