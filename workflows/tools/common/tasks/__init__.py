"""Tools about the caller's own tasks."""
