"""Calls of language models, streamed."""
