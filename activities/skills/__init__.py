"""Skills: an operator's documents with instructions for models."""
