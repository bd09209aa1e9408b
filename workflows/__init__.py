"""What happens, durably: deterministic workflow code, no I/O."""
