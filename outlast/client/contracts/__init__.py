"""What the client gives and takes, as frozen pydantic models."""
