"""Tasks: admission of calls, and the client with which front doors start, await and cancel them."""
