"""`resources/*`, `prompts/*` and `completion/complete`."""
