"""Dialects of MCP by mode: differences between clients that expect one surface or another."""
