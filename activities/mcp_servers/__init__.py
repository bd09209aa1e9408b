"""Actors that are MCP servers: list and call their tools."""
