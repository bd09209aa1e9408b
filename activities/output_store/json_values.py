"""JSON values that come from anywhere: read and written so that none makes the program fail."""

import json

import orjson
from pydantic import JsonValue

_DEEPEST = 100
"""Levels of nesting that every part of the program can carry: Temporal's converter, clients, models."""


def value_of(text: bytes) -> JsonValue:
    """The value that `text` is; the text itself, as a string, when it is no JSON or too deeply nested to be carried."""
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text.decode(errors="replace")
    may_be_deep = text.count(b"[") + text.count(b"{") > _DEEPEST
    return text.decode(errors="replace") if may_be_deep and _is_deeper(value, _DEEPEST) else value


def text_of(value: JsonValue) -> bytes:
    """`value` as JSON in UTF-8, without spaces. Numbers of any size and texts with lone surrogates are kept."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _is_deeper(value: JsonValue, levels: int) -> bool:
    if isinstance(value, dict):
        return levels == 0 or any(_is_deeper(part, levels - 1) for part in value.values())
    if isinstance(value, list):
        return levels == 0 or any(_is_deeper(part, levels - 1) for part in value)
    return False
