"""Actors that the sandbox platform knows, their folders and input schemas."""
