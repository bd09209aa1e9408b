"""How the items of batches become tasks."""
