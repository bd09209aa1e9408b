"""Failures: their categories, the tool error that carries them, and how they leave an activity."""
