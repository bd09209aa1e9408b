"""What it costs that a process starts: at first, and after its death."""
