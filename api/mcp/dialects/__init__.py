"""How MCP is spoken in each mode: what differs between clients that expect one surface or another."""
