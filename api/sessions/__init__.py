"""Sessions and turns: the client that all entry points use."""
