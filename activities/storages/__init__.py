"""Datasets and key-value stores of the platform: lists, descriptions, rows and records."""
