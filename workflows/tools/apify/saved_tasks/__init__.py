"""Tools for saved Actor tasks: an Actor with an input and options under a name."""
