"""Tools that read datasets and key-value stores."""
