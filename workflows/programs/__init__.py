"""Programs of models: Python whose calls of tools are durable tasks. They run in an interpreter without any access."""
