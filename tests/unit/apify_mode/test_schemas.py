"""The schemas of the mode `apify`: an Actor's own one reduced, and names that stay within what clients take."""

from hashlib import sha256
from typing import Any

from outlast.workflows.tools.apify.call_actor import actor_input_schema, decoded, shown_schema, tool_name
from outlast.workflows.tools.framework.sealed_parts import secret_fields
from outlast.workflows.tools.registry import actor_tool_of

SCHEMA: dict[str, Any] = {
    "title": "Input",
    "type": "object",
    "schemaVersion": 1,
    "properties": {
        "query": {"title": "Query", "type": "string", "description": "What.", "editor": "textfield", "minLength": 2},
        "max.items": {"title": "Most", "type": "integer", "description": "x" * 600, "default": 10, "maximum": 50},
        "password": {"title": "Password", "type": "string", "isSecret": True, "editor": "textfield"},
        "proxy": {"title": "Proxy", "type": "object", "editor": "proxy", "prefill": {"useApifyProxy": True}},
        "urls": {"title": "URLs", "type": "array", "editor": "requestListSources", "prefill": [{"url": "https://x.y"}]},
        "kind": {"title": "Kind", "type": "string", "enum": ["a", "b"], "default": "a"},
    },
    "required": ["query", "kind", "max.items"],
}


def listed() -> dict[str, Any]:
    return actor_input_schema("user/name", "user--name", SCHEMA)


def test_an_actor_s_schema_is_reduced_to_what_models_need() -> None:
    schema = listed()
    assert schema["$id"] == "https://apify.com/mcp/user--name/schema.json"
    assert schema["required"] == ["query"]
    fields = schema["properties"]
    assert fields["query"] == {"title": "Query", "type": "string", "description": "**REQUIRED** What."}
    assert fields["max-dot-items"]["description"].endswith("x [Description truncated]")
    assert fields["max-dot-items"]["examples"] == [10]
    assert set(fields["proxy"]["properties"]) >= {"useApifyProxy", "apifyProxyGroups"}
    assert fields["urls"]["items"]["type"] == "object"
    assert fields["kind"]["enum"] == ["a", "b"]
    assert decoded({"max-dot-items": 3, "query": "y"}) == {"max.items": 3, "query": "y"}


def test_what_is_secret_is_still_marked_for_sealing() -> None:
    definition = actor_tool_of("apify", "user/name", title="Name", description="", schema=SCHEMA)
    assert secret_fields(definition.input_schema) == {"password"}


def test_only_some_fields_of_the_browser_and_no_endless_enums() -> None:
    names = ["query", "maxResults", "outputFormats", "proxyConfiguration"]
    many: dict[str, Any] = {"properties": {name: {"type": "string"} for name in names}}
    assert list(actor_input_schema("apify/rag-web-browser", "t", many)["properties"]) == names[:3]  # type: ignore[arg-type]
    few: dict[str, Any] = {"type": "string", "enum": ["a", ""]}
    long: dict[str, Any] = {"properties": {"x": {"type": "string", "enum": ["y" * 30, "z" * 90] * 50}, "few": few}}
    fields: dict[str, Any] = actor_input_schema("a/b", "a--b", long)["properties"]  # pyright: ignore[reportAssignmentType]
    assert fields["few"]["enum"] == ["a"], "each field has a limit of its own"
    assert "enum" not in fields["x"]
    assert fields["x"]["description"].startswith(f"One of 100 values, such as {'y' * 30}, ")
    assert "z" not in fields["x"]["description"]


def test_the_shown_schema_keeps_what_is_no_matter_of_the_form() -> None:
    shown = shown_schema(SCHEMA)
    assert shown["schemaVersion"] == 1
    assert shown["properties"]["query"] == {"title": "Query", "type": "string", "description": "What."}  # type: ignore[index, call-overload]


def test_long_names_are_cut_and_stay_apart() -> None:
    """To the name that clients have written down: 59 characters, and 4 digits of the Actor's digest."""
    actors = [f"user/{'very-long-' * 8}{end}" for end in "ab"]
    whole = f"user--{'very-long-' * 8}"
    expected = [f"{whole[:59]}-{sha256(actor.encode()).hexdigest()[:4]}" for actor in actors]
    assert [tool_name(actor) for actor in actors] == expected
    assert expected[0] != expected[1]
    assert tool_name("a.b/c") == "a-dot-b--c"
