"""Calls of tools over MCP: answers, questions, progress, tasks."""
