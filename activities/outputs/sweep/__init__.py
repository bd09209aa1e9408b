"""The removal of outputs that have expired and that no task refers to."""
