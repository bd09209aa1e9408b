"""Input and output schemas of this mode's tools, as data."""
