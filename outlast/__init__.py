"""Durable tool execution for AI agents."""
