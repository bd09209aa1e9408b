"""A turn of a conversation, in pure parts: contracts, prompt, steps, budgets, permissions, events."""
