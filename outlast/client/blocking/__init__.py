"""The client with blocking I/O."""
