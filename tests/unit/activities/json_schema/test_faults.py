"""Schemas of other people lose what JSON Schema does not allow, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from outlast.activities.json_schema.faults import without_faults

A_STRING: dict[str, Any] = {"type": "string", "description": "Kept."}


@pytest.mark.parametrize(
    ("property_", "expected"),
    [
        ({"type": "int", "description": "Kept."}, {"description": "Kept."}),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "minimum": 0}),  # draft 4
        (
            {"type": "object", "properties": {"b": A_STRING}, "required": True},
            {"type": "object", "properties": {"b": A_STRING}},
        ),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array"}),  # draft 7
        ({"type": "object", "properties": {"type": {"type": "strng"}}}, {"type": "object", "properties": {"type": {}}}),
        ({"properties": {"properties": {"type": "strng"}}}, {"properties": {"properties": {}}}),
        ({"anyOf": [{"type": "string"}, None]}, {}),
        ({"enum": "a"}, {}),
        ({"properties": {"0": {"type": "strng"}, "1": [0]}}, {"properties": {"0": {}, "1": {}}}),
        ({"$ref": "#/$defs/lost", "title": "Kept."}, {"title": "Kept."}),
        ({"$ref": "#/properties/same", "default": {"$ref": "#/lost"}},) * 2,
        (None, {}),
        ("string", {}),
    ],
)
def test_only_the_faulty_keyword_is_left_out(property_: Any, expected: Any) -> None:
    schema = {"type": "object", "properties": {"a": property_, "same": A_STRING}, "required": ["a"]}
    before = repr(schema)
    found = without_faults(schema)
    assert found == {"type": "object", "properties": {"a": expected, "same": A_STRING}, "required": ["a"]}
    assert repr(schema) == before


def test_a_schema_without_faults_is_the_same_object() -> None:
    schema: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": A_STRING},
        "x": None,
    }
    assert without_faults(schema) is schema


def test_one_that_cannot_be_mended_stays() -> None:
    deep: Any = {"type": "strng"}
    for _ in range(10_000):
        deep = {"properties": {"a": deep}}
    assert without_faults(deep) is deep
    many: dict[str, Any] = {"properties": {str(number): {"type": "strng"} for number in range(1_000)}}
    assert without_faults(many) is many


KEYWORDS = "type properties required items anyOf enum $defs minimum pattern additionalProperties title a".split()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([*KEYWORDS, "object", "string"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=5))
def test_whatever_is_left_is_a_schema(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(without_faults(schema))
