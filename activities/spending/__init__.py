"""Money: the caps of paid calls, and what they did cost."""
