"""Questions on the terminal, and answers given as flags."""
