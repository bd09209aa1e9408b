"""Support for tests against the sandbox platform: injected faults, counters."""
