"""What paid calls may cost, and what they did cost."""
