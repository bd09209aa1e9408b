"""The operator's policy: one file that says who calls, with which keys, limits, caps and permissions."""
