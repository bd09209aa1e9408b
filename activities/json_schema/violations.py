"""Violations of a JSON Schema in a value, found in workflow code, which must not wait and cannot be interrupted.
`schema_violations` is for schemas of this program and its operator. For schemas from outside, such as an Actor's, use
`quick_violations` in workflows, which refuses work that might take long, and `SchemaChecker` elsewhere.
"""

import json
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import Violation
from outlast.activities.json_schema.engine import Found, NeedsSteps, as_text, find

MAX_QUICK_WORK = 20_000_000
"""Values of the schema times bytes of the value: a fifth of a second at the worst, usually a millisecond."""
MAX_QUICK_PATTERN_WORK = 50_000
"""Regular expressions times bytes of the value; the worst ones look at 250,000 characters a second."""


def schema_violations(schema: dict[str, JsonValue], value: JsonValue) -> tuple[Violation, ...]:
    """The violations of `schema` (JSON Schema 2020-12, with Apify's `nullable`) in `value`; 50 at most. An invalid
    schema accepts every value: its owner checks the value again. Takes as long as it takes.
    """
    return as_violations(find(as_text(schema), value, linear=False))


def quick_violations(schema: dict[str, JsonValue], value: JsonValue) -> tuple[Violation, ...] | None:
    """As `schema_violations`, but None where finding them might take long. Deterministic."""
    try:
        nodes, patterns = nodes_and_patterns(schema)
        size = len(json.dumps(value))
    except (NotCountable, RecursionError):
        return None
    if nodes * size > MAX_QUICK_WORK or patterns * size > MAX_QUICK_PATTERN_WORK:
        return None
    try:
        return as_violations(find(as_text(schema), value, linear=True))
    except NeedsSteps:
        return None


def as_violations(found: list[Found]) -> tuple[Violation, ...]:
    """`found` as contracts show it."""
    return tuple(Violation.at(one.place, one.message) for one in found)


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
