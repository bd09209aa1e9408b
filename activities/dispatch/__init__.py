"""Releases the queued tasks of a caller, in order, as its earlier ones end."""
