"""Tasks: admission of calls, and the client with which entry points start, await and cancel them."""
