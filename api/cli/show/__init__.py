"""What the command line prints: tables, progress, answers."""
