"""Sessions and turns: the client that all front doors use."""
