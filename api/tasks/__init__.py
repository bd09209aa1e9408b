"""Tasks, as the front doors use them: admission of a call, and the client that starts, awaits and cancels it."""
