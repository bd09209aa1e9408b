"""Conversations, kept in the output store as long as their session: blocks of messages, and references to them."""
