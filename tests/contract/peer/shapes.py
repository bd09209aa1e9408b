"""What is compared: schemas without their texts, and answers by keys and types instead of values."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from tests.contract.peer.differences import LISTED_ON_PURPOSE

_TEXTS = frozenset({"description", *LISTED_ON_PURPOSE})


def without_texts(schema: Any, *, names: bool = False) -> Any:
    """A JSON Schema, or an entry of a list of tools, without descriptions; `required: []` says nothing."""
    if isinstance(schema, list):
        return [without_texts(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: without_texts(value, names=key == "properties" and not names)
        for key, value in schema.items()
        if names or key not in _TEXTS
    }
    if not names and isinstance(kept.get("required"), list):
        kept["required"] = sorted(kept["required"])
        if not kept["required"]:
            del kept["required"]
    return kept


def differences(peer: Any, ours: Any, place: str = "") -> Iterator[str]:
    """One line for each place where two JSON values differ."""
    if isinstance(peer, dict) and isinstance(ours, dict):
        for key in {**peer, **ours}:
            if key not in ours:
                yield f"{place}/{key}: only the peer has {peer[key]!r}"
            elif key not in peer:
                yield f"{place}/{key}: only ours has {ours[key]!r}"
            else:
                yield from differences(peer[key], ours[key], f"{place}/{key}")
    elif isinstance(peer, list) and isinstance(ours, list) and len(peer) == len(ours):
        for at, (one, other) in enumerate(zip(peer, ours, strict=True)):
            yield from differences(one, other, f"{place}/{at}")
    elif peer != ours:
        yield f"{place}: the peer has {peer!r}, ours {ours!r}"


def beyond(found: Iterable[str], always: Collection[str], sometimes: Collection[str] = ()) -> list[str]:
    """The differences at other places than these, and the places of `always` where there is none (any more)."""
    lines = {line.partition(":")[0]: line for line in found}
    unexpected = [line for place, line in lines.items() if place not in {*always, *sometimes}]
    return [*unexpected, *(f"{place}: is on the list, and no difference" for place in always if place not in lines)]


def shape_of(value: Any) -> Any:
    """Keys and types of an answer; of a list the first entry stands for all."""
    if isinstance(value, dict):
        return {key: shape_of(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__
