"""Secrets are sealed before they enter a history, and opened only where they are used."""
