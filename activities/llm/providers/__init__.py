"""Model providers: one module per protocol, and the table of each provider's capabilities."""
