"""What the dialect of Apify's server makes of arguments, and how it tells what is wrong with them."""

from typing import Any

import pytest

from outlast.api.mcp.dialects.apify import ApifyDialect
from outlast.api.mcp.dialects.apify_arguments import coerced_object, first_violation, quick_first_violation
from outlast.api.mcp.protocol.request_meta import ProgressFacts, ProgressNote

DIALECT = ApifyDialect()
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^x"},
        "count": {"type": "integer", "minimum": 0, "maximum": 45},
        "cost": {"type": "number", "exclusiveMinimum": 0},
        "flag": {"type": "boolean"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "inner": {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False},
        "open": {"type": "object"},
        "list": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"count": "5", "cost": " 1.5 ", "flag": "true"}, {"count": 5, "cost": 1.5, "flag": True}),
        ({"count": "5.0", "flag": 0, "name": 7}, {"count": 5, "flag": False, "name": "7"}),
        ({"count": None, "name": None}, {"count": 0, "name": ""}),
        (
            {"cost": "9007199254740993", "list": ["-9007199254740993", "5."]},
            {"cost": 2**53 + 1, "list": [-(2**53) - 1, 5]},
        ),
        *(
            ({name: far}, {name: far})
            for name in ("count", "cost")
            for far in ("12345678901234567890123", "1" + "0" * 299, f"0x{'f' * 17}", f"0.{'0' * 298}1e-99", "1e99" * 9)
        ),
        ({"count": "1.5", "cost": "nan", "flag": "yes"}, {"count": "1.5", "cost": "nan", "flag": "yes"}),
        ({"cost": "inf", "count": "1_000", "list": ["1", "x"]}, {"cost": "inf", "count": "1_000", "list": [1, "x"]}),
        ({"unknown": 1, "inner": {"x": "1", "y": 2}, "open": {"y": "2"}}, {"inner": {"x": 1}, "open": {"y": "2"}}),
        ({"inner": "text", "list": "2", "name": []}, {"inner": "text", "list": [2], "name": []}),
        # As JavaScript reads numbers, and a list of one value is that value.
        ({"count": " ", "cost": "0x1f", "name": ["a"]}, {"count": 0, "cost": 31, "name": "a"}),
        ({"count": ["7"], "inner": [{"x": "1"}], "flag": ["x"]}, {"count": 7, "inner": {"x": 1}, "flag": "x"}),
        ({"count": "", "cost": "0b", "name": [["a"]]}, {"count": "", "cost": "0b", "name": ["a"]}),
    ],
)
def test_values_get_the_type_of_the_schema_and_unknown_names_are_dropped(
    given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert coerced_object(SCHEMA, given) == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "yes"}, None),
        ({"count": 99}, "root: must have required property 'name'"),
        ({"kind": "c", "count": 99, "name": ""}, "/name: must NOT have fewer than 1 characters"),
        ({"kind": "c", "count": 46, "name": "x"}, "/count: must be <= 45"),
        ({"name": "long", "count": 1}, "/name: must NOT have more than 3 characters"),
        ({"name": "x", "cost": 0}, "/cost: must be > 0"),
        ({"name": "x", "kind": "c"}, "/kind: must be equal to one of the allowed values"),
        ({"name": "x", "inner": {"x": "y"}}, "/inner/x: must be integer"),
        ({"name": "x", "list": [1, 2, 3]}, "/list: must NOT have more than 2 items"),
        ({"name": "x", "list": [1, "y"]}, "/list/1: must be number"),
    ],
)
def test_the_first_violation_is_told_as_ajv_tells_it(given: dict[str, Any], said: str | None) -> None:
    assert first_violation(SCHEMA, given) == said
    assert quick_first_violation(SCHEMA, given) == said


def test_a_schema_of_the_outside_world_costs_no_time() -> None:
    evil: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"type": "string", "pattern": "(a+)+$", "minLength": 99}},
    }
    assert quick_first_violation(evil, {"x": "a" * 40 + "!"}) == "/x: must NOT have fewer than 99 characters"
    endless: dict[str, Any] = {"properties": {"pattern": {"type": "integer"}, "x": {"$ref": "#"}}}
    assert quick_first_violation(endless, {"pattern": "y", "x": {}}) == "/pattern: must be integer"
    wide: dict[str, Any] = {"properties": {f"p{number}": {"enum": list(range(900))} for number in range(900)}}
    assert quick_first_violation(wide, {"p1": "x" * 100_000}) is None


def test_progress_names_the_actor_and_the_run() -> None:
    started = ProgressFacts("run_started", {"run_id": "r1", "status": "READY", "actor_name": "a/b"}, "b", "r1")
    going = ProgressFacts("status_message", {"status_message": "Half", "run_status": "RUNNING"}, "a/b", "r1")
    queued = ProgressFacts("status_message", {"status_message": "Queued"}, "a/b", None)
    told = [DIALECT.progress(facts) for facts in (started, going, queued)]
    assert told == [
        ProgressNote("a/b: READY", meta={"com.apify/ActorRun": {"runId": "r1"}}),
        ProgressNote("a/b: RUNNING — Half", meta={"com.apify/ActorRun": {"runId": "r1"}}),
        None,
    ]


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("call-actor", "call-actor"),
        ("apify/web.fetch", "apify--web-dot-fetch"),
        ("apify-slash-web-fetch", "apify--web-fetch"),
        ("/x", "/x"),
    ],
)
def test_an_actor_s_tool_has_three_names(called: str, name: str) -> None:
    assert DIALECT.tool_name(called) == name
