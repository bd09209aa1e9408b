"""Workspaces: a folder per conversation, where tools read files and run commands."""
