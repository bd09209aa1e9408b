"""Arguments are read as their schema has them where it allows one reading; everything else stays as it is."""

import json
from typing import Any

import pytest

from outlast.activities.contracts import Violation
from outlast.activities.json_schema.coercion import MAX_CHANGES, coerced, looks_like_json, with_kinds_sent

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["needed"],
    "$defs": {
        "Tags": {"type": "array", "items": {"type": "string"}},
        "Loop": {"$ref": "#/$defs/Loop"},
        "Page": {"type": "object", "properties": {"url": {"type": "string"}, "depth": {"type": "integer"}}},
    },
    "properties": {
        "needed": {"type": "string"},
        "limit": {"type": "integer"},
        "cost": {"type": "number"},
        "flag": {"type": "boolean"},
        "text": {"type": "string"},
        "tags": {"$ref": "#/$defs/Tags"},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "apify": {"type": "array", "nullable": True},
        "either": {"type": ["string", "integer"]},
        "several": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/Tags"}]},
        "choice": {"enum": [1, 2, 5]},
        "fixed": {"const": True},
        "page": {"$ref": "#/$defs/Page"},
        "pages": {"type": "array", "items": {"$ref": "#/$defs/Page"}},
        "optional_page": {"anyOf": [{"$ref": "#/$defs/Page"}, {"type": "null"}]},
        "whatever": {},
        "all": {"allOf": [{"type": ["integer", "string"]}, {"type": "integer"}]},
        "loop": {"$ref": "#/$defs/Loop"},
        "gone": {"$ref": "#/$defs/Gone"},
        "far": {"$ref": "https://example.com/schema"},
    },
}

READ: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"limit": None}, {}, ["/limit: null was left out"]),
    ({"text": None, "tags": None, "page": None}, {}, ["/text", "/tags", "/page"]),
    ({"pages": [{"url": None}]}, {"pages": [{}]}, ["/pages/0/url: null was left out"]),
    ({"tags": '["a", "b"]'}, {"tags": ["a", "b"]}, ["/tags: a string with JSON was read as a list"]),
    ({"page": '{"url": "x", "depth": "2"}'}, {"page": {"url": "x", "depth": 2}}, ["/page: a string", "/page/depth"]),
    ({"pages": '[{"depth": "2"}]'}, {"pages": [{"depth": 2}]}, ["/pages", "/pages/0/depth"]),
    ({"optional_page": '{"depth": "2"}'}, {"optional_page": {"depth": 2}}, ["/optional_page", "/optional_page/depth"]),
    ({"tags": json.dumps('["a"]')}, {"tags": ["a"]}, ["/tags: a string with JSON was read as a list"]),  # encoded twice
    ({"maybe": " null"}, {"maybe": None}, ["/maybe: a string was read as null"]),
    ({"limit": "null", "tags": "None"}, {}, ["/limit: null was left out", "/tags: null was left out"]),
    ({"limit": "5"}, {"limit": 5}, ["/limit: a string was read as a number"]),
    ({"limit": " 5 "}, {"limit": 5}, ["/limit"]),
    ({"limit": "5.0"}, {"limit": 5}, ["/limit"]),
    ({"limit": "12345678901234567890"}, {"limit": 12345678901234567890}, ["/limit"]),
    ({"cost": "-1.5e3"}, {"cost": -1500.0}, ["/cost"]),
    ({"maybe": "7"}, {"maybe": 7}, ["/maybe"]),
    ({"flag": "true"}, {"flag": True}, ["/flag: a string was read as a boolean"]),
    ({"flag": "False"}, {"flag": False}, ["/flag"]),
    ({"fixed": "true"}, {"fixed": True}, ["/fixed"]),
    ({"choice": "5"}, {"choice": 5}, ["/choice"]),
    ({"all": "5"}, {"all": 5}, ["/all"]),
    ({"numbers": [1, "2"]}, {"numbers": [1, 2]}, ["/numbers/1: a string was read as a number"]),
]


@pytest.mark.parametrize(("given", "wanted", "changes"), READ, ids=lambda value: json.dumps(value)[:60])
def test_what_has_one_reading_is_read_so(given: dict[str, Any], wanted: dict[str, Any], changes: list[str]) -> None:
    read = coerced(SCHEMA, {"needed": "x", **given})
    assert read.arguments == {"needed": "x", **wanted}
    assert len(read.changes) == len(changes)
    for change, beginning in zip(read.changes, changes, strict=True):
        assert change.startswith(beginning)
    again = coerced(SCHEMA, read.arguments)
    assert (again.arguments, again.changes) == (read.arguments, ())


STAYS: list[dict[str, Any]] = [
    {"limit": "12345678901234567890123"},
    {"limit": "1e30"},
    {"cost": "1e400"},
    {"cost": "1e-3000"},
    {"cost": "12345678901234567890123"},
    {"cost": "9" * 5_000},
    {"numbers": "[1, 12345678901234567890123]"},
    {"page": '{"depth": NaN}'},
    {"needed": None},
    {"maybe": None},
    {"apify": None},
    {"whatever": None},
    {"unknown": None},
    {"unknown": "5"},
    {"whatever": '["a"]'},
    {"either": "5"},
    {"several": '["a"]'},
    {"text": '["a"]'},
    {"text": "5"},
    {"text": 5},
    {"text": True},
    {"text": ["a"]},
    {"text": {"a": 1}},
    {"tags": "a"},
    {"tags": "a, b"},
    {"text": "null"},
    {"either": "null"},
    {"needed": "null"},
    {"tags": '"a"'},
    {"limit": '"5"'},
    {"tags": '["a"'},
    {"tags": '{"a": 1}'},
    {"tags": 5},
    {"page": "[]"},
    {"limit": "five"},
    {"limit": ""},
    {"limit": "5.5"},
    {"limit": "0x1f"},
    {"limit": "007"},
    {"limit": "1_000"},
    {"limit": True},
    {"cost": "NaN"},
    {"cost": "Infinity"},
    {"flag": 1},
    {"flag": "yes"},
    {"loop": "5"},
    {"gone": "5"},
    {"far": "5"},
    {"tags": "[" * 5_000},
]


@pytest.mark.parametrize("given", STAYS, ids=lambda value: json.dumps(value)[:60])
def test_what_has_another_reading_or_none_stays(given: dict[str, Any]) -> None:
    read = coerced(SCHEMA, given)
    assert (read.arguments, read.changes) == (given, ())


def test_changes_name_places_and_no_values_and_are_few() -> None:
    read = coerced(SCHEMA, {"numbers": [str(number) for number in range(100)], "limit": "4242"})
    assert read.arguments["limit"] == 4242
    assert len(read.changes) == MAX_CHANGES
    assert "4242" not in str(read.changes)
    escaped = coerced({"properties": {"a/b~c": {"type": "integer"}}}, {"a/b~c": "1"}, at="/input")
    assert escaped.changes == ("/input/a~1b~0c: a string was read as a number",)


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": True}}, {"properties": {"a": 5}}])
def test_a_schema_that_is_none_changes_nothing(schema: dict[str, Any]) -> None:
    assert coerced(schema, {"a": None, "b": "5"}) == ({"a": None, "b": "5"}, ())


def test_an_error_about_a_type_says_what_was_sent() -> None:
    violations = (
        Violation(path="/tags", message="Input should be a valid list"),
        Violation(path="/limit", message='"x" is not of type "integer"'),
        Violation(path="/text", message="String should have at least 3 characters"),
        Violation(path="/gone", message="Input should be a valid list"),
    )
    told = with_kinds_sent(violations, {"tags": "a", "limit": "x", "text": "x"})
    assert [one.message for one in told] == [
        "Input should be a valid list; you sent a string",
        '"x" is not of type "integer"; you sent a string',
        "String should have at least 3 characters",
        "Input should be a valid list",
    ]


def test_broken_json_looks_like_it() -> None:
    assert [looks_like_json(text) for text in ('["a"', ' {"a"', "a", "", "5")] == [True, True, False, False, False]


def test_a_schema_whose_top_is_a_reference_is_followed() -> None:
    """As pydantic writes it for a model that contains itself."""
    node: dict[str, Any] = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/a%20node"}},
        },
    }
    read = coerced({"$defs": {"a node": node}, "$ref": "#/$defs/a%20node"}, {"children": '[{"size": "3"}]'})
    assert read.arguments == {"children": [{"size": 3}]}
