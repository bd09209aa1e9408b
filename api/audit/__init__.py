"""The audit log: actions of callers, in files whose changes are detected."""
