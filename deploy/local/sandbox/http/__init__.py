"""The HTTP application, and what its routes share."""
