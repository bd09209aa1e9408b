"""References of a JSON Schema into itself. Pure."""

from urllib.parse import unquote

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject


def referenced(root: JsonObject, reference: JsonValue) -> JsonObject | None:
    """The schema within `root` that a `$ref` points to; None for a reference elsewhere, or to nothing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found: JsonValue = root
    for part in unquote(reference).split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None
