"""Workflows: deterministic code without I/O."""
