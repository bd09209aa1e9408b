"""Tools that search and read documentation."""
