"""Places in the arguments of a call, by name: `actorId`, or `actions/*/actorId` for the elements of a list."""

from collections.abc import Iterator

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject

EACH = "*"


def values_at(arguments: JsonObject, place: str) -> Iterator[JsonValue]:
    """Every value that there is at a place."""
    yield from _values_below(arguments, place.split("/"))


def _values_below(value: JsonValue, place: list[str]) -> Iterator[JsonValue]:
    if not place:
        yield value
        return
    here, *below = place
    if here == EACH and isinstance(value, list):
        for entry in value:
            yield from _values_below(entry, below)
    elif isinstance(value, dict) and here in value:
        yield from _values_below(value[here], below)
