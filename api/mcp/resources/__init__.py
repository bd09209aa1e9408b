"""MCP resources and prompts."""
