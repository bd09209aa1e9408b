"""JSON Schemas that are no JSON Schema (2020-12) in some place, without that place. Pure.

People write `"type": "int"`, the `exclusiveMinimum: true` of older drafts, or `null` for a schema. Programs that only
pass a schema on do not notice, and then a provider refuses it.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final, cast

import jsonschema_rs

from outlast.activities.contracts import JsonObject

_MAX_FAULTS: Final = 200
_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names of schemas."""


def without_faults(schema: JsonObject) -> JsonObject:
    """`schema` without the keywords whose values are not allowed; `schema` itself if there are none.

    It then accepts more than it was meant to. One with very many faults, or nested too deeply to be checked, stays.
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
            return found
    return schema


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
