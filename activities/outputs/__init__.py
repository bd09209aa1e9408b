"""Large outputs: stored outside the conversation, read in part or whole, removed when they expire."""
