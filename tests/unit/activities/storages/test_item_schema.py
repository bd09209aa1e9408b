"""What is inferred from rows."""

import json
from typing import Any, cast

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.activities.storages.datasets import schema_of_items, simplified_schema

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def infer(rows: list[Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", schema_of_items(rows))


def test_a_field_missing_in_some_rows_is_optional() -> None:
    schema = infer([{"url": "a", "title": "A"}, {"url": "b"}])
    assert schema["properties"] == {"url": {"type": "string"}, "title": {"type": "string"}}
    assert schema["required"] == ["url"]


def test_mixed_types_become_unions() -> None:
    rows = [{"price": 1, "tags": "x"}, {"price": None, "tags": ["x"]}, {"price": 2.5, "tags": ["y", 1]}]
    properties = infer(rows)["properties"]
    assert properties["price"] == {"type": ["null", "number"]}
    assert properties["tags"] == {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "integer"]}}]
    }


def test_nested_objects_and_arrays_are_described() -> None:
    rows = [{"author": {"name": "A"}, "links": [{"href": "x"}, {"href": "y", "rel": "next"}]}]
    properties = infer(rows)["properties"]
    assert properties["author"] == {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert properties["links"]["items"]["required"] == ["href"]


def test_texts_of_one_form_say_so() -> None:
    rows = [
        {
            "at": "2026-11-21T10:00:00.5Z",
            "day": "2026-11-21",
            "url": "https://a.example/x",
            "by": "a@b.example",
            "t": "x",
        },
        {
            "at": "2026-11-21T10:00:00+01:00",
            "day": "2026-11-22",
            "url": "http://b.example",
            "by": None,
            "t": "2026-01-01",
        },
    ]
    properties = cast(dict[str, dict[str, Any]], schema_of_items(rows)["properties"])
    assert {name: part.get("format") for name, part in properties.items()} == {
        "at": "date-time",
        "day": "date",
        "url": "uri",
        "by": "email",
        "t": None,
    }
    assert properties["by"]["type"] == ["string", "null"]


def test_no_rows_promise_nothing() -> None:
    assert infer([]) == {}
    assert infer([{"links": []}])["properties"] == {"links": {"type": "array"}}


def test_an_object_with_hundreds_of_names_is_a_map() -> None:
    assert infer([{str(number): number for number in range(300)}]) == {"type": "object"}


@settings(deadline=None)
@given(st.lists(json_values, max_size=6))
def test_every_row_fits_the_schema_inferred_from_all(rows: list[Any]) -> None:
    schema = infer(rows)
    jsonschema.Draft202012Validator.check_schema(schema)
    for row in rows:
        jsonschema.validate(row, schema)


@settings(max_examples=60, deadline=None)
@given(st.lists(json_values, min_size=1, max_size=4), st.integers(40, 400))
def test_a_simplified_schema_still_fits_the_rows(rows: list[Any], max_bytes: int) -> None:
    simplified = simplified_schema(schema_of_items(rows), max_bytes=max_bytes)
    for row in rows:
        jsonschema.validate(row, simplified)


def test_a_wide_schema_keeps_its_first_properties() -> None:
    schema = schema_of_items([{f"field{number}": number for number in range(100)}])
    simplified = simplified_schema(schema, max_bytes=700)
    properties = cast("dict[str, Any]", simplified["properties"])
    assert list(properties)[:2] == ["field0", "field1"]
    assert 10 < len(properties) < 100
    assert len(json.dumps(simplified, separators=(",", ":"))) <= 700


def test_a_deep_schema_loses_its_deepest_levels() -> None:
    rows: list[Any] = [{"page": {f"field{number}": {"inner": number} for number in range(30)}}]
    simplified = simplified_schema(schema_of_items(rows), max_bytes=700)
    assert simplified["properties"] == {"page": {"type": "object"}}
