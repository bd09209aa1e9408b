"""The command line, `outlast`."""
