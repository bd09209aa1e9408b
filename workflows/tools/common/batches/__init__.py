"""Tools that start batches and look after them."""
