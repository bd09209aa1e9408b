"""The sandbox platform's HTTP server."""
