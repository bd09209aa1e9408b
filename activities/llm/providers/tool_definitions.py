"""Tool definitions as they are sent to models: serialised once, canonically, and reused byte for byte."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from outlast.activities.contracts import JsonObject


@dataclass(frozen=True)
class Definition:
    """A tool as a model sees it."""

    name: str
    description: str
    input_schema: JsonObject


def canonical_definitions(definitions: Iterable[Definition]) -> str:
    """`CallModelInput.definitions_json` of these tools: by name, keys sorted, no spaces.

    Equal sets of tools give equal texts, in whatever order they come.
    """
    listed = [
        {"name": one.name, "description": one.description, "input_schema": one.input_schema}
        for one in sorted(definitions, key=lambda one: one.name)
    ]
    return json.dumps(listed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@lru_cache(maxsize=64)
def read_definitions(definitions_json: str) -> tuple[Definition, ...]:
    """The definitions in their order. Raises `ValueError` for anything else than a list of them."""
    listed: object = json.loads(definitions_json)
    if not isinstance(listed, list):
        raise ValueError("Tool definitions are a JSON list.")  # noqa: TRY004 (the text is wrong, not its type)
    return tuple(_definition(entry) for entry in cast(list[object], listed))


def _definition(entry: object) -> Definition:
    fields = cast(dict[str, object], entry) if isinstance(entry, dict) else {}
    name, description, schema = (fields.get(key) for key in ("name", "description", "input_schema"))
    if not (isinstance(name, str) and isinstance(description, str) and isinstance(schema, dict)):
        raise ValueError("A tool definition is {name, description, input_schema}.")  # noqa: TRY004 (as above)
    return Definition(name, description, cast(JsonObject, schema))
