"""Calls of language models: the contract, the activity that streams an answer, the providers."""
