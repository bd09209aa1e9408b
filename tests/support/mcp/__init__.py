"""MCP servers for tests."""
