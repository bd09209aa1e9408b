"""Backups of an embedded stack: one file with all that must be kept together, made while it runs, and its way back."""
