"""Programs of models through real entry points."""
