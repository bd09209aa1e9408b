"""Tools about Actors."""
