"""Notifications: task status, resource updates, and changes of the list of tools."""
