"""The limit on the nesting of JSON values. Imports nothing heavy: a subprocess uses it."""

from typing import Any, cast

DEEPEST = 100
"""Levels that Temporal's converter, pydantic and common clients can all parse."""


def is_too_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Whether a JSON value has more than `levels` levels of lists and objects."""
    if isinstance(value, dict):
        parts = list(cast("dict[str, Any]", value).values())
    elif isinstance(value, list):
        parts = cast("list[Any]", value)
    else:
        return False
    return levels == 0 or any(is_too_deep(part, levels - 1) for part in parts)
