"""Actor runs: start at most once, follow, abort, read logs."""
