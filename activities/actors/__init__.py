"""Actors of Apify Store: search, details and definitions."""
