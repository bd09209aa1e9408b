"""The object store: writing, reading, verifying and removing outputs in it."""
