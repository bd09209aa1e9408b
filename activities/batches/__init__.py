"""Batches: the items of one tool over many inputs, kept in blocks; rounds that start and await them; their results."""
