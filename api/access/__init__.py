"""Who calls, and which tools a request may use."""
