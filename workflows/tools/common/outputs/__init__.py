"""Tools that read what calls have produced."""
