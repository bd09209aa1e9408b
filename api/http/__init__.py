"""What every HTTP route shares: problem documents, limits, event streams, the OpenAPI document."""
