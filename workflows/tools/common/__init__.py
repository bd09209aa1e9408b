"""Tools that are the same in every mode."""
