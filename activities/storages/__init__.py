"""Datasets and key-value stores: rows, records, keys, lists and inferred schemas."""
