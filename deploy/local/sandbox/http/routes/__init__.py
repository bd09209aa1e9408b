"""The HTTP routes, a module for each kind of object of the API."""
