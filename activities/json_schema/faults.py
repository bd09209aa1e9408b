"""JSON Schemas that are no JSON Schema (2020-12) in some place, without that place. Pure. People write `"type": "int"`,
the `exclusiveMinimum: true` of older drafts, `null` for a schema, or a reference to a definition that is missing.
Programs that only pass a schema on do not notice, and then a provider refuses it.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final, cast

import jsonschema_rs
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.json_schema.coercion import referenced

_MAX_FAULTS: Final = 200
_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names of schemas."""
_OF_VALUES = frozenset({"const", "enum", "default", "examples"})


def without_faults(schema: JsonObject) -> JsonObject:
    """`schema` without keywords whose values are not allowed and references to nothing; itself if it has none of these.
    What is left accepts more than was meant. A schema with very many faults, or nested too deeply to be checked, stays.
    """
    try:
        return _mended(schema)
    except (ValueError, LookupError, TypeError, RecursionError):
        return schema


def _mended(schema: JsonObject) -> JsonObject:
    found = schema
    for _ in range(_MAX_FAULTS):
        try:
            jsonschema_rs.meta.validate({key: value for key, value in found.items() if key != "$schema"})
        except jsonschema_rs.ValidationError as fault:
            found = deepcopy(schema) if found is schema else found
            _remove(found, fault.instance_path)
        else:
            if next(_lost_references(found, found), None) is None:
                return found
            found = deepcopy(schema) if found is schema else found
            for part in list(_lost_references(found, found)):
                del part["$ref"]
    return schema


def _lost_references(part: JsonValue, root: JsonObject) -> Iterator[JsonObject]:
    """Yield the parts of a schema with a reference into it that leads nowhere: no value could be checked."""
    if isinstance(part, list):
        for one in part:
            yield from _lost_references(one, root)
    elif isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and referenced(root, reference) is None:
            yield part
        for name, one in part.items():
            if name not in _OF_VALUES:
                yield from _lost_references(one, root)


def _remove(schema: JsonObject, place: Sequence[str | int]) -> None:
    """Remove the keyword at `place`, or around it if it is in a list."""
    part: Any = schema
    objects: list[tuple[dict[str, Any], str]] = []
    for step in place:
        if isinstance(part, dict):
            # The validator gives a name of digits as a number.
            objects.append((cast("dict[str, Any]", part), str(step)))
            part = objects[-1][0][str(step)]
        else:
            part = part[step]
    within, name = objects[-1]
    if len(objects) > 1 and objects[-2][1] in _OF_SCHEMAS and within[name] != {}:
        within[name] = {}  # A property or definition of this name exists; nothing is known about it.
    else:
        del within[name]
