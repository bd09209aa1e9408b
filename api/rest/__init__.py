"""The REST task API."""
