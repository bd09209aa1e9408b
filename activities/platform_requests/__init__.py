"""Requests to the platform's API whose answers are returned as the API sends them."""
