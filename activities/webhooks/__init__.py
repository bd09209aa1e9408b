"""Messages to users, delivered to a webhook."""
