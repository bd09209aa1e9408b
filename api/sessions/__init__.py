"""Conversations and turns, as the front doors use them."""
