"""What a client is told without asking: status, changed lists, updated resources."""
