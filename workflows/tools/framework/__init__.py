"""Definitions of tools, and the pipeline around their handlers."""
