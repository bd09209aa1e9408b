"""Datasets, key-value stores and request queues of the sandbox platform."""
