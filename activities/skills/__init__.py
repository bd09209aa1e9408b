"""Skills: documents in a folder that a model loads by name."""
