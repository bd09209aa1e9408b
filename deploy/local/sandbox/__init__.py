"""The sandbox platform: an HTTP server on loopback that speaks the Apify API v2 and runs real Actors as subprocesses.

Start it with `python -m outlast.deploy.local.sandbox`; README.md beside this file says what it promises. It imports
none of Outlast's floors: what it knows of the platform comes from the public API documents and the official clients.
"""
