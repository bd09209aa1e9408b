"""`outlast client`: client phases of tools, executed on this machine."""
