"""The one form of a tool error, and how every exception becomes it."""
