"""What the tools of this mode answer: the run response, content blocks, failures."""
