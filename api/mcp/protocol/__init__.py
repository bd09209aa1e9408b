"""The wire: what differs between protocol versions, and the shapes of tasks, tools, forms and errors."""
