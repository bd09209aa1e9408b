# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""Modules of `Client`."""
