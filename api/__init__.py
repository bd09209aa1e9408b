"""Every front door: REST, MCP, adapters and the command line, all over one task client."""
