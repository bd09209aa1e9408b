"""Payloads of histories: how values become JSON, are encrypted and stored, and whose each is."""
