"""Messages to the operator's webhook."""
