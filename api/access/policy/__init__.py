"""The policy of the operator: one file with callers, their keys, limits, spending limits and permissions."""
