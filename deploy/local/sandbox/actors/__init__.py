"""Actors: folders, the catalogue, input validation, saved tasks."""
