"""Tools about Actor runs."""
