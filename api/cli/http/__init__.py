"""How the command line talks to the API."""
