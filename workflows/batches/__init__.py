"""Batches: what comes next, and when a batch is over."""
