"""The output of the command line: tables, progress, answers."""
