"""How Outlast is run: the embedded stack, and what a cluster needs."""
