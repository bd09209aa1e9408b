"""The sandbox platform: an HTTP server on loopback that speaks the Apify API v2 and runs real Actors as subprocesses.

Start it with `python -m outlast.deploy.local.sandbox`; README.md in this folder describes it. It imports nothing of the
rest of Outlast: its behaviour follows the public API reference and the official clients.
"""
