"""Callers, and the tools that a request may use."""
