"""What happens, durably: deterministic code without I/O."""
