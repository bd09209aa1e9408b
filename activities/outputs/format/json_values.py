"""Parses and serialises JSON values of any origin without failing on unusual ones."""

import json

import orjson
from pydantic import JsonValue

from outlast.activities.outputs.format.nesting import DEEPEST, is_too_deep


def value_of(text: bytes) -> JsonValue:
    """The JSON value in `text`; `text` itself, as a string, when it is not JSON or nested too deeply."""
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text.decode(errors="replace")
    may_be_deep = text.count(b"[") + text.count(b"{") > DEEPEST
    return text.decode(errors="replace") if may_be_deep and is_too_deep(value) else value


def text_of(value: JsonValue) -> bytes:
    """`value` as JSON in UTF-8, without spaces. Numbers of any size and texts with lone surrogates are kept."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()
