"""The wire format: differences between protocol versions, and the shapes of tasks, forms and errors."""
