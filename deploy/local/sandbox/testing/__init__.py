"""What only tests of the sandbox platform use: faults on order, counters."""
