"""The big table: as many rows of realistic text as asked for, the same ones for the same seed."""
