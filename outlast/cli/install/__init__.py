"""Writes Outlast into the configuration files of MCP clients, and takes it out again."""
