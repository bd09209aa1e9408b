"""Other names of tools."""

TOOL_ALIASES = {"get-actor-run-log": "get-actor-log"}
"""Names that other Apify MCP servers use for the same tools: accepted, never listed."""
