"""The command line: `outlast`."""
