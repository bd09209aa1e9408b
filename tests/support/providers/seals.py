"""Reasoning as providers hand it out: unreadable for others, and bound to the model."""

import base64


def seal(model: str, text: str) -> str:
    """What only this provider can read, and only for this model."""
    return base64.b64encode(f"{model}\0{text}".encode()).decode()


def sealed_for(model: str, sealed: str) -> bool:
    """Whether `seal` made it for this model."""
    try:
        return base64.b64decode(sealed, validate=True).startswith(f"{model}\0".encode())
    except ValueError:
        return False
