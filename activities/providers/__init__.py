"""Model providers: one module per protocol, and the matrix of what each provider can do."""
