"""The sleeper: a run whose duration and final status are set by its input."""
