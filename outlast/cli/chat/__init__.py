"""`outlast chat` and the benchmark of conversations."""
