"""Stored outputs: large results outside of histories, written once, verified on every read, read in parts."""
