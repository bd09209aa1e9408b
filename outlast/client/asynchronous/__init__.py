"""Modules of `AsyncClient`."""
