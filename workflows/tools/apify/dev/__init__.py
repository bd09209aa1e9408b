"""Tools for those who run the server."""
