"""Actors that are MCP servers: their tool lists and calls, passed on unchanged."""
