"""Reading, writing, verifying and removing outputs in an object store."""
