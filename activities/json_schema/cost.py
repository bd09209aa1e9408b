"""How much work a JSON Schema can make, before it is applied. Pure: the same schema and value give the same answer."""

from dataclasses import dataclass
from typing import Any, cast

MAX_NODES = 20_000
"""Values in a schema, each as often as a reference leads to it."""
_PATTERNS = frozenset({"pattern", "patternProperties"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_MAX_DEPTH = 100


class NotCountable(Exception):
    """The schema is too large or too deep, refers to itself, or has references of another form than `#/…`."""


@dataclass
class _Count:
    nodes: int = 0
    patterns: int = 0


def nodes_and_patterns(schema: Any) -> tuple[int, int]:
    """The number of values in `schema` with its references followed, and of regular expressions. Raises `NotCountable`.

    A value has to pass each of them once per part of it at most, so that this times its size bounds the work.
    """
    count = _Count()
    _visit(schema, schema, count, 0)
    return count.nodes, count.patterns


def _visit(root: Any, part: Any, count: _Count, depth: int) -> None:
    count.nodes += 1
    if count.nodes > MAX_NODES or depth > _MAX_DEPTH:
        raise NotCountable
    if isinstance(part, list):
        for one in cast("list[Any]", part):
            _visit(root, one, count, depth + 1)
    elif isinstance(part, dict):
        for name, one in cast("dict[str, Any]", part).items():
            if name in _PATTERNS:
                count.patterns += max(len(cast("dict[str, Any]", one)), 1) if isinstance(one, dict) else 1
            if name in _REFERENCES and isinstance(one, str):
                _visit(root, _target(root, one), count, depth + 1)
            elif name != "$defs" or depth > 0:
                _visit(root, one, count, depth + 1)


def _target(root: Any, reference: str) -> Any:
    if not reference.startswith("#/") or "%" in reference:
        raise NotCountable
    target = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, dict) or name not in target:
            raise NotCountable
        target = cast("dict[str, Any]", target)[name]
    return target
