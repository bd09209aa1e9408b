"""`outlast client`: client phases of tools, carried out on this machine."""
