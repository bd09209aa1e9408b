"""Actors: folders, the catalogue, input validation."""
