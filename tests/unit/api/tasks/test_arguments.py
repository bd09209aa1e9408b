"""Arguments are checked before anything starts: every violation at once, with a JSON Pointer."""

from typing import Any

import pytest

from outlast.activities.json_schema.checker import SchemaChecker
from outlast.activities.json_schema.violations import schema_violations
from outlast.activities.secrets import MASK
from outlast.api.catalog.catalog import CalledActor
from outlast.api.errors import InvalidCall, SchemaChecksBusy
from outlast.api.tasks.arguments import ArgumentCheck
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.registry import actor_tool_of, tools_of

SCHEMA: dict[str, Any] = {
    "title": "Crawler input",
    "type": "object",
    "schemaVersion": 1,
    "properties": {
        "startUrls": {
            "title": "Start URLs",
            "type": "array",
            "editor": "requestListSources",
            "items": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}},
        },
        "depth": {"type": "integer", "minimum": 0, "maximum": 5},
        "mode": {"type": "string", "enum": ["fast", "slow"], "enumTitles": ["Fast", "Slow"]},
        "proxy/settings~": {"type": "object", "nullable": True},
        "nullable": {"type": "string"},
        "when": {"type": "string", "enum": ["now"], "nullable": True},
        "prefix": {"type": "string", "pattern": "^/"},
    },
    "required": ["startUrls"],
}


CHECK = ArgumentCheck(SchemaChecker(seconds=60), "local")


def named(name: str) -> Tool:
    return next(definition for definition in tools_of("default") if definition.name == name)


def found(value: Any, schema: dict[str, Any] | None = None) -> list[str]:
    return [violation.path for violation in schema_violations(schema or SCHEMA, value)]


async def test_a_busy_machine_is_not_told_as_a_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.activities.json_schema.checker.patience", lambda seconds: 0)
    check = ArgumentCheck(SchemaChecker(seconds=60), "local")
    rows: dict[str, Any] = {"items": {"allOf": [{"type": "integer"}] * 1_000}}
    actor = CalledActor("me/many", {"properties": {"rows": rows}})
    with pytest.raises(SchemaChecksBusy, match="again"):
        await check.of_call(named("call-actor"), {"actor": "me/many", "input": {"rows": list(range(50_000))}}, actor)


@pytest.mark.parametrize(
    "value",
    [
        {"startUrls": [{"url": "https://example.com"}]},
        {"startUrls": [], "depth": 5, "mode": "fast", "proxy/settings~": {"useApifyProxy": True}},
        {"startUrls": [], "proxy/settings~": None, "when": None, "nullable": "yes"},
        {"startUrls": [], "anythingElse": 1},
    ],
)
def test_an_input_that_fits_the_actors_schema_passes(value: Any) -> None:
    assert found(value) == []


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({}, [""]),
        ({"startUrls": "x"}, ["/startUrls"]),
        ({"startUrls": [{"url": "a"}, {}, {"url": 1}]}, ["/startUrls/1", "/startUrls/2/url"]),
        ({"startUrls": [], "proxy/settings~": 1}, ["/proxy~1settings~0"]),
        ({"startUrls": [], "depth": None, "nullable": None}, ["/depth", "/nullable"]),
        (
            {"depth": 9, "mode": "x", "when": "x", "prefix": "a"},
            ["", "/depth", "/mode", "/prefix", "/when"],
        ),
    ],
)
def test_every_violation_is_told_with_its_path(value: Any, paths: list[str]) -> None:
    assert found(value) == paths


def test_messages_and_their_number_are_bounded() -> None:
    violations = schema_violations(
        {"items": {"type": "integer"}, "type": "array"}, ["x" * 10_000 for _ in range(1_000)]
    )
    assert len(violations) == 50
    assert all(len(violation.message) <= 300 for violation in violations)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": {"a": {"required": True}}},
        {"properties": {"a": {"pattern": "("}}},
    ],
)
def test_a_schema_that_cannot_be_applied_leaves_the_check_to_the_platform(schema: dict[str, Any]) -> None:
    assert found({"a": "1"}, schema) == []


async def test_the_actors_own_tool_is_checked_against_the_actors_schema() -> None:
    definition = actor_tool_of("default", "user/crawler", title="", description="", schema=SCHEMA)
    await CHECK.of_call(definition, {"startUrls": []})
    with pytest.raises(InvalidCall) as caught:
        await CHECK.of_call(definition, {"depth": -1})
    envelope = caught.value.envelope
    assert (envelope.tool, envelope.category) == ("user--crawler", "validation")
    assert [violation.path for violation in envelope.violations or ()] == ["", "/depth"]


async def test_a_tool_of_ours_is_checked_against_its_model() -> None:
    with pytest.raises(InvalidCall) as caught:
        await CHECK.of_call(named("get-dataset-items"), {"limit": 0, "offset": -1, "sort": "x"})
    paths = {violation.path for violation in caught.value.envelope.violations or ()}
    assert paths == {"/datasetId", "/limit", "/offset", "/sort"}


KEYED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "key/~": {"type": "string", "pattern": "^key-"},
        "logins": {"type": "array", "items": {"type": "object"}},
        "depth": {"type": "integer", "maximum": 5},
    },
    "required": ["key/~"],
}


async def refused(arguments: dict[str, Any], tool: Tool | None = None) -> list[str]:
    """Where arguments that were edited while masked are refused."""
    definition = tool or actor_tool_of("default", "user/crawler", title="", description="", schema=KEYED)
    try:
        await CHECK.of_edited(definition, arguments, CalledActor("user/crawler", KEYED))
    except InvalidCall as error:
        return [violation.path for violation in error.envelope.violations or ()]
    return []


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"key/~": MASK}, []),
        ({"key/~": MASK, "logins": [{}, MASK], "depth": MASK}, []),
        ({"key/~": MASK, "depth": 9}, ["/depth"]),
        ({"key/~": "secret"}, ["/key~1~0"]),
        ({"key/~": f"{MASK}!"}, ["/key~1~0"]),
        ({"key/~": MASK, "logins": [MASK, 1]}, ["/logins/1"]),
        ({"logins": MASK}, [""]),
        ({"key/~": [MASK]}, ["/key~1~0"]),
    ],
)
async def test_a_masked_value_may_break_the_schema_and_nothing_else_may(
    arguments: dict[str, Any], paths: list[str]
) -> None:
    assert await refused(arguments) == paths


@pytest.mark.parametrize(
    ("run_input", "paths"),
    [({"key/~": MASK}, []), (MASK, []), ({"key/~": "x"}, ["/input/key~1~0"]), ("x", ["/input"])],
)
async def test_masks_are_allowed_inside_the_input_of_call_actor(run_input: Any, paths: list[str]) -> None:
    """Its whole input is masked when the Actor's schema was not known."""
    assert await refused({"actor": "user/crawler", "input": run_input}, named("call-actor")) == paths


async def test_a_call_that_nobody_masked_is_refused_for_the_mask() -> None:
    definition = actor_tool_of("default", "user/crawler", title="", description="", schema=KEYED)
    with pytest.raises(InvalidCall):
        await CHECK.of_call(definition, {"key/~": MASK})


async def test_a_mask_outside_the_input_does_not_hide_what_is_wrong_inside_it() -> None:
    arguments = {"actor": "user/crawler", "input": {"key/~": "key-1", "depth": 9}, "callOptions": MASK}
    assert await refused(arguments, named("call-actor")) == ["/input/depth"]


async def test_a_mask_inside_an_input_of_an_unknown_schema_is_refused() -> None:
    arguments: dict[str, Any] = {"actor": "user/crawler", "input": {"logins": [MASK]}}
    with pytest.raises(InvalidCall) as caught:
        await CHECK.of_edited(named("call-actor"), arguments)
    assert [violation.path for violation in caught.value.envelope.violations or ()] == ["/input/logins/0"]
