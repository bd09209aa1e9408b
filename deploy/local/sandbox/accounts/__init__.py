"""Users of the sandbox platform, their tokens and limits."""
