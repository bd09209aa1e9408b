"""Calls of MCP servers through Outlast, and beside other gateways."""
