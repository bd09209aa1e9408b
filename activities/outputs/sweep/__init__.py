"""The sweep, which deletes outputs and payloads that are no longer needed."""
