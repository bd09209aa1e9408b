"""Storages: their table, datasets, key-value stores, request queues."""
