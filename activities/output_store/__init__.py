"""Outputs of any size, outside histories and conversations: written once, verified on every read, restored in slices."""
