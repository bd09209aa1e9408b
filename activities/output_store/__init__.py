"""Outputs of any size, outside histories and conversations: written once, verified on every read, read in slices."""
