"""Tools for runs of Actors."""
