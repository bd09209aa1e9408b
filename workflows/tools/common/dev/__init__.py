"""Tools for developers: page structures, files, commands."""
