"""Which keys of a result's `_meta` a client sees."""

from pydantic import JsonValue

_UI_MODES = frozenset({"openai", "apify"})
"""Modes that have widgets."""
_UI_PREFIX = "openai/"
_INTERNAL_PREFIX = "outlast/added"


def visible_meta(meta: dict[str, JsonValue], *, mode: str) -> dict[str, JsonValue]:
    """`meta` without the keys that are for the front door alone, and without those of widgets where a mode has none."""
    return {
        key: value
        for key, value in meta.items()
        if not key.startswith(_INTERNAL_PREFIX) and (mode in _UI_MODES or not key.startswith(_UI_PREFIX))
    }
