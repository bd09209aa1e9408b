"""`tools/call` and `tasks/*`: starting tasks, waiting for them, and asking the client their questions."""
