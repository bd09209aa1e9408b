"""Rows stand once in a history: an answer's text repeats the rows of its structured form, and is recorded without them.

Pure. The recorded form of a `ToolResult` has `rows_at`, where in its first text the rows belong.

The rows of a run are in the result of the activity that read them, so an outcome refers to them by their digest.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

ROWS_AT = "rows_at"
WORTH_CHARS = 200
"""Fewer characters of rows are recorded twice: the mark costs some too."""


def rows_as_lines(items: Iterable[JsonValue]) -> str:
    """One JSON value per line, without spaces: they cost tokens."""
    return "\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items)


def digest_of_rows(rows: str) -> str:
    """SHA-256 of rows as lines, by which an outcome refers to them."""
    return hashlib.sha256(rows.encode(errors="surrogatepass")).hexdigest()


def without_repeated_rows(result: dict[str, Any]) -> dict[str, Any]:
    """The recorded form of a result: as it is unless its first text holds exactly the rows of its structured form."""
    match result:
        case {
            "content": [{"type": "text", "text": str(text)} as first, *others],
            "structured": {"items": [*items]},
        }:
            rows = rows_as_lines(cast(list[JsonValue], items))
            at = text.find(rows) if len(rows) >= WORTH_CHARS else -1
            if at < 0:
                return result
            shortened = {**first, "text": text[:at] + text[at + len(rows) :]}
            recorded = {**result, "content": [shortened, *others], ROWS_AT: at}
        case _:
            return result
    # Rows whose JSON is written in another way when it was read once stay in the text.
    return recorded if with_repeated_rows(from_json(to_json(recorded))) == result else result


def with_repeated_rows(recorded: Any) -> Any:
    """A result as it was before it was recorded; anything else is returned as it is."""
    match recorded:
        case {
            "rows_at": int(at),
            "content": [{"text": str(text)} as first, *others],
            "structured": {"items": [*items]},
        }:
            rows = rows_as_lines(cast(list[JsonValue], items))
            whole = {**first, "text": text[:at] + rows + text[at:]}
            result = {key: value for key, value in cast(dict[str, Any], recorded).items() if key != ROWS_AT}
            return {**result, "content": [whole, *others]}
        case _:
            return recorded
