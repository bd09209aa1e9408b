"""The interface of handlers: `HandlerContext`, and the activities that it calls."""
