"""One module per wire format of model providers, and what they have in common."""
