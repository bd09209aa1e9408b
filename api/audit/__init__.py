"""The audit log: who did what, in files whose changes are noticed."""
