"""Requests and responses of the REST API, one module for each resource. Server and client use the same models."""
