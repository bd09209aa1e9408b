"""The spend ledgers of callers."""
