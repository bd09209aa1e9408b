"""The interface of handlers: `ToolContext`, and the activities that it calls."""
