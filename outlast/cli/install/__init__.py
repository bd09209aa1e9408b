"""Adds Outlast to the configuration files of MCP clients, and removes it."""
