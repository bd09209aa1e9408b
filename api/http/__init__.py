"""Shared by all HTTP routes: problem documents, limits, event streams, the OpenAPI document."""
