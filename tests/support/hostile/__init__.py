"""What hostile callers do, and what every answer has to keep whatever is asked."""
