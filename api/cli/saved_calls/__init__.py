"""`outlast saved`."""
