"""Which keys of a result's `_meta` a client sees."""

from pydantic import JsonValue

_UI_PREFIX = "openai/"
_INTERNAL_PREFIX = "outlast/added"


def visible_meta(meta: dict[str, JsonValue], *, mode: str) -> dict[str, JsonValue]:
    """`meta` without the keys that are for the front door alone, and without those of widgets where a mode has none."""
    seen = {key: value for key, value in meta.items() if not key.startswith(_INTERNAL_PREFIX)}
    if not any(key.startswith(_UI_PREFIX) for key in seen) or _has_widgets(mode):
        return seen
    return {key: value for key, value in seen.items() if not key.startswith(_UI_PREFIX)}


def _has_widgets(mode: str) -> bool:
    from outlast.workflows.tools.registry import MODES  # noqa: PLC0415 (contracts are for clients, too: no Temporal)

    known = MODES.get(mode)
    return known is not None and known.has_widgets
