"""Actor runs: started at most once, followed to their end, aborted."""
