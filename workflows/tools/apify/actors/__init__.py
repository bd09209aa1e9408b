"""Tools that find and run Actors."""
