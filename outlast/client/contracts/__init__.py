"""Contracts of the client: frozen pydantic models."""
