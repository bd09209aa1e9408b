"""What a schedule starts whenever it is due."""
