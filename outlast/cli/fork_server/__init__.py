"""A process that has loaded what `outlast mcp` needs, and forks for each client. Decision 22 says why."""
