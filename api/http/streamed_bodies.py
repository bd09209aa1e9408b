"""Requests whose bodies are read as streams: larger than others, and no JSON documents. Their routes check them."""

from starlette.types import Scope

STREAMED = frozenset({("POST", "/v1/batches/uploads")})


def is_streamed(scope: Scope) -> bool:
    """Whether the route reads the body by itself, within a limit of its own."""
    return scope["type"] == "http" and (scope["method"], scope["path"].rstrip("/")) in STREAMED
