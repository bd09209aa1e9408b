"""`outlast webhooks`."""
