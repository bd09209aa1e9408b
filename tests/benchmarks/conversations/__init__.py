"""What conversations cost as they grow."""
