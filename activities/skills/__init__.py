"""Skills: an operator's documents that tell a model how to do something."""
