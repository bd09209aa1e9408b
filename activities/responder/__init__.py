"""Messages of tools to users, through the operator's webhook."""
