"""The sandbox platform: an HTTP server on loopback with the Apify API v2 that runs real Actors as subprocesses.

README.md describes it. It does not depend on the rest of Outlast: its behaviour follows the public API reference and
the official clients.
"""
