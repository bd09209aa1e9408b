"""Selecting a part of a stored output: ranges, fields, filters and queries."""
