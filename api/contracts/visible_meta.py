"""Which keys of a result's `_meta` a client sees."""

from pydantic import JsonValue

_UI_MODE = "openai"
_UI_PREFIX = "openai/"
_INTERNAL_PREFIX = "outlast/added"


def visible_meta(meta: dict[str, JsonValue], *, mode: str) -> dict[str, JsonValue]:
    """`meta` without the keys that are for the front door alone, and outside the UI mode without those of widgets."""
    return {
        key: value
        for key, value in meta.items()
        if not key.startswith(_INTERNAL_PREFIX) and (mode == _UI_MODE or not key.startswith(_UI_PREFIX))
    }
