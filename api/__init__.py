"""Entry points of the server: REST, MCP and adapters. All of them use one `TaskClient`."""
