"""Tools that speak to the user or load skills."""
