"""The big table: any number of rows of realistic text, the same ones for the same seed."""
